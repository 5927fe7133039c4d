/* Seismograms of a survey: acoustic waves on a staggered grid, fourth order in space, second in time. No part of diffsim.

   dv/dt = -grad p,  dp/dt = -c^2 div v + c^2 s(t) delta(x - x_s),  so p_tt = c^2 (laplace p + s'(t) delta(x - x_s)).
   If SURFACE is 1, the first row is a free surface: p = 0 there, and p is odd and vz even about it. EDGE cells at the other sides absorb.

   Usage: survey NZ NX H DT STEPS EVERY SHOTS RECEIVERS EDGE SURFACE < input > output
   Input (f64): c (NZ x NX), s (STEPS), then pairs of whole numbers (row, column) of the shots and of the receivers.
   Output (f32): p at the receivers after every EVERY steps, shots x samples x receivers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double *take(size_t count) {
  double *values = malloc(count * sizeof *values);
  if (!values || fread(values, sizeof *values, count, stdin) != count) {
    fprintf(stderr, "survey: expected %zu numbers on the input\n", count);
    exit(1);
  }
  return values;
}

int main(int count, char **given) {
  if (count != 11) {
    fprintf(stderr, "survey: expected 10 arguments, got %d\n", count - 1);
    return 1;
  }
  const int nz = atoi(given[1]), nx = atoi(given[2]), steps = atoi(given[5]), every = atoi(given[6]);
  const int shots = atoi(given[7]), receivers = atoi(given[8]), edge = atoi(given[9]), surface = atoi(given[10]);
  const double h = atof(given[3]), dt = atof(given[4]);
  const size_t cells = (size_t)nz * nx;
  const int samples = (steps - 1) / every + 1;
  double *c = take(cells), *s = take(steps), *at = take(2 * (size_t)(shots + receivers));
  double *damp = malloc(cells * sizeof *damp);
  for (int i = 0; i < nz; i++)
    for (int j = 0; j < nx; j++) {
      int z = surface || nz - 1 - i < i ? nz - 1 - i : i, x = j < nx - 1 - j ? j : nx - 1 - j, near = z < x ? z : x;
      double depth = near < edge ? (edge - near) / (double)edge : 0.0;
      damp[(size_t)i * nx + j] = exp(-0.02 * depth * depth);
    }
  float *out = malloc((size_t)shots * samples * receivers * sizeof *out);
  const double a = 9.0 / 8.0 / h, b = -1.0 / 24.0 / h;
#pragma omp parallel for schedule(dynamic)
  for (int shot = 0; shot < shots; shot++) {
    double *p = calloc(cells, sizeof *p), *vz = calloc(cells, sizeof *vz), *vx = calloc(cells, sizeof *vx);
    const size_t source = (size_t)at[2 * shot] * nx + (size_t)at[2 * shot + 1];
    for (int n = 0; n < steps; n++) {
      if (n % every == 0)
        for (int r = 0; r < receivers; r++) {
          size_t cell = (size_t)at[2 * (shots + r)] * nx + (size_t)at[2 * (shots + r) + 1];
          out[((size_t)shot * samples + n / every) * receivers + r] = (float)p[cell];
        }
      for (int i = 0; i < nz - 2; i++)
        for (int j = 1; j < nx - 2; j++) {
          size_t k = (size_t)i * nx + j;
          double above = i ? p[k - nx] : -p[k + nx];
          vz[k] = damp[k] * (vz[k] - dt * (a * (p[k + nx] - p[k]) + b * (p[k + 2 * nx] - above)));
          vx[k] = damp[k] * (vx[k] - dt * (a * (p[k + 1] - p[k]) + b * (p[k + 2] - p[k - 1])));
        }
      for (int i = 1; i < nz - 1; i++)
        for (int j = 2; j < nx - 1; j++) {
          size_t k = (size_t)i * nx + j;
          double above = i > 1 ? vz[k - 2 * nx] : vz[k - nx];
          double div = a * (vz[k] - vz[k - nx] + vx[k] - vx[k - 1]) + b * (vz[k + nx] - above + vx[k + 1] - vx[k - 2]);
          p[k] = damp[k] * (p[k] - dt * c[k] * c[k] * div);
        }
      p[source] += dt * c[source] * c[source] * s[n] / (h * h);
    }
    free(p), free(vz), free(vx);
  }
  return fwrite(out, sizeof *out, (size_t)shots * samples * receivers, stdout) == (size_t)shots * samples * receivers ? 0 : 1;
}
