/* The yardstick for waves on staggered grids: the same schemes as diffsim's, written by hand. Fields are as in reference.c: rows of floats
 * with a zero halo, a pointer to cell (0, 0), `stride` the distance of two rows. The time step and the spacing are folded into the
 * coefficients.
 */
#include <omp.h>

#define INLINE static inline __attribute__((always_inline))

struct points {
    int source_row, source_column;
    const float *amplitudes; /* one a step */
    int receiver_row, receiver_column, receiver_step, receivers;
    float *traces;          /* steps + 1 rows of receivers */
    const float *residuals; /* the same shape */
};

enum { VY, VX, SYY, SXX, SXY };
enum { C11, C12, MU, BY, BX };

struct elastic {
    int threads, rows, columns;
    long stride;
    struct points points; /* forces along axis 0, records of vy */
    float *c[5];          /* coefficients by C11 .. BX, times dt / h */
};

/* Differences of fourth order: from cells to the face above, and from faces to the cell below; `s` is the distance along the axis. */
INLINE float up(const float *f, long s) { return (9.0f / 8) * (f[s] - f[0]) + (-1.0f / 24) * (f[2 * s] - f[-s]); }
INLINE float down(const float *f, long s) { return (9.0f / 8) * (f[0] - f[-s]) + (-1.0f / 24) * (f[s] - f[-2 * s]); }

INLINE void elastic_step(const struct elastic *e, float *const *restrict f, float *const *restrict keep, int keeps, int n) {
    long s = e->stride;
    const struct points *p = &e->points;
#pragma omp for schedule(static)
    for (int i = 0; i < e->rows; i++) {
        long at = i * s;
        float *restrict vy = f[VY] + at, *restrict vx = f[VX] + at, *restrict ky = keeps ? keep[3] + at : vy, *restrict kx = keeps ? keep[4] + at : vx;
        const float *syy = f[SYY] + at, *sxx = f[SXX] + at, *sxy = f[SXY] + at, *by = e->c[BY] + at, *bx = e->c[BX] + at;
#pragma omp simd aligned(vy, vx, syy, sxx, sxy, by, bx : 64)
        for (int j = 0; j < e->columns; j++) {
            float y = up(syy + j, s) + down(sxy + j, 1), x = down(sxy + j, s) + up(sxx + j, 1);
            vy[j] += by[j] * y;
            vx[j] += bx[j] * x;
            if (keeps) ky[j] = y, kx[j] = x;
        }
    }
#pragma omp for schedule(static)
    for (int i = 0; i < e->rows; i++) {
        long at = i * s;
        const float *vy = f[VY] + at, *vx = f[VX] + at, *c11 = e->c[C11] + at, *c12 = e->c[C12] + at, *mu = e->c[MU] + at;
        float *restrict syy = f[SYY] + at, *restrict sxx = f[SXX] + at, *restrict sxy = f[SXY] + at;
        float *restrict k0 = keeps ? keep[0] + at : syy, *restrict k1 = keeps ? keep[1] + at : sxx, *restrict k2 = keeps ? keep[2] + at : sxy;
#pragma omp simd aligned(vy, vx, syy, sxx, sxy, c11, c12, mu : 64)
        for (int j = 0; j < e->columns; j++) {
            float yy = down(vy + j, s), xx = down(vx + j, 1), xy = up(vy + j, 1) + up(vx + j, s);
            syy[j] += c11[j] * yy + c12[j] * xx;
            sxx[j] += c12[j] * yy + c11[j] * xx;
            sxy[j] += mu[j] * xy;
            if (keeps) k0[j] = yy, k1[j] = xx, k2[j] = xy;
        }
    }
#pragma omp single
    {
        f[VY][p->source_row * s + p->source_column] += e->c[BY][p->source_row * s + p->source_column] * p->amplitudes[n];
        for (int r = 0; r < p->receivers; r++)
            p->traces[(long)(n + 1) * p->receivers + r] = f[VY][p->receiver_row * s + p->receiver_column + (long)r * p->receiver_step];
    }
}

/* The whole time loop; `history`, if any, has five fields a step. */
void elastic_run(const struct elastic *e, float *const *f, float *const *history, int steps) {
#pragma omp parallel num_threads(e->threads)
    for (int n = 0; n < steps; n++) {
        if (history) elastic_step(e, f, history + 5 * n, 1, n);
        else elastic_step(e, f, f, 0, n);
    }
}

/* All adjoint steps. `t` has the cotangents by VY .. SXY, `q` scratch for products, `g` the sums for the coefficients by C11 .. BX. */
void elastic_back(const struct elastic *e, float *const *t, float *const *q, float *const *g, float *const *history, int steps) {
    long s = e->stride;
    const struct points *p = &e->points;
#pragma omp parallel num_threads(e->threads)
    for (int n = steps - 1; n >= 0; n--) {
        float *const *keep = history + 5 * n;
#pragma omp single
        {
            for (int r = 0; r < p->receivers; r++)
                t[VY][p->receiver_row * s + p->receiver_column + (long)r * p->receiver_step] += p->residuals[(long)(n + 1) * p->receivers + r];
            long source = p->source_row * s + p->source_column;
            g[BY][source] += t[VY][source] * p->amplitudes[n];
        }
#pragma omp for schedule(static)
        for (int i = 0; i < e->rows; i++) {
            long at = i * s;
            const float *tyy = t[SYY] + at, *txx = t[SXX] + at, *txy = t[SXY] + at, *yy = keep[0] + at, *xx = keep[1] + at, *xy = keep[2] + at;
            const float *c11 = e->c[C11] + at, *c12 = e->c[C12] + at, *mu = e->c[MU] + at;
            float *restrict g11 = g[C11] + at, *restrict g12 = g[C12] + at, *restrict gmu = g[MU] + at;
            float *restrict q0 = q[0] + at, *restrict q1 = q[1] + at, *restrict q2 = q[2] + at;
#pragma omp simd aligned(tyy, txx, txy, yy, xx, xy, c11, c12, mu, g11, g12, gmu, q0, q1, q2 : 64)
            for (int j = 0; j < e->columns; j++) {
                g11[j] += tyy[j] * yy[j] + txx[j] * xx[j];
                g12[j] += tyy[j] * xx[j] + txx[j] * yy[j];
                gmu[j] += txy[j] * xy[j];
                q0[j] = c11[j] * tyy[j] + c12[j] * txx[j];
                q1[j] = c12[j] * tyy[j] + c11[j] * txx[j];
                q2[j] = mu[j] * txy[j];
            }
        }
#pragma omp for schedule(static)
        for (int i = 0; i < e->rows; i++) {
            long at = i * s;
            const float *q0 = q[0] + at, *q1 = q[1] + at, *q2 = q[2] + at, *y = keep[3] + at, *x = keep[4] + at;
            const float *by = e->c[BY] + at, *bx = e->c[BX] + at;
            float *restrict ty = t[VY] + at, *restrict tx = t[VX] + at, *restrict gy = g[BY] + at, *restrict gx = g[BX] + at;
            float *restrict w0 = q[3] + at, *restrict w1 = q[4] + at;
#pragma omp simd aligned(q0, q1, q2, y, x, by, bx, ty, tx, gy, gx, w0, w1 : 64)
            for (int j = 0; j < e->columns; j++) {
                float a = ty[j] - up(q0 + j, s) - down(q2 + j, 1), b = tx[j] - up(q1 + j, 1) - down(q2 + j, s);
                ty[j] = a;
                tx[j] = b;
                gy[j] += a * y[j];
                gx[j] += b * x[j];
                w0[j] = by[j] * a;
                w1[j] = bx[j] * b;
            }
        }
#pragma omp for schedule(static)
        for (int i = 0; i < e->rows; i++) {
            long at = i * s;
            const float *w0 = q[3] + at, *w1 = q[4] + at;
            float *restrict tyy = t[SYY] + at, *restrict txx = t[SXX] + at, *restrict txy = t[SXY] + at;
#pragma omp simd aligned(w0, w1, tyy, txx, txy : 64)
            for (int j = 0; j < e->columns; j++) {
                tyy[j] -= down(w0 + j, s);
                txx[j] -= down(w1 + j, 1);
                txy[j] -= up(w0 + j, 1) + up(w1 + j, s);
            }
        }
    }
}

enum { EZ, HX, HY };

struct light {
    int threads, rows, columns;
    long stride;
    struct points points; /* currents Jz, records of Ez */
    float scale;          /* dt / h */
    const float *push;    /* dt / eps */
    float per_h;          /* 1 / h */
};

INLINE void light_step(const struct light *e, float *const *restrict f, float *restrict keep, int n) {
    long s = e->stride;
    const struct points *p = &e->points;
    float scale = e->scale, per_h = e->per_h;
#pragma omp for schedule(static)
    for (int i = 0; i < e->rows; i++) {
        long at = i * s;
        const float *ez = f[EZ] + at;
        float *restrict hx = f[HX] + at, *restrict hy = f[HY] + at;
#pragma omp simd aligned(ez, hx, hy : 64)
        for (int j = 0; j < e->columns; j++) {
            hx[j] -= scale * (ez[j + s] - ez[j]);
            hy[j] += scale * (ez[j + 1] - ez[j]);
        }
    }
#pragma omp for schedule(static)
    for (int i = 0; i < e->rows; i++) {
        long at = i * s;
        const float *hx = f[HX] + at, *hy = f[HY] + at, *push = e->push + at;
        float *restrict ez = f[EZ] + at, *restrict k = keep ? keep + at : ez;
#pragma omp simd aligned(ez, hx, hy, push : 64)
        for (int j = 0; j < e->columns; j++) {
            float rate = per_h * (hy[j] - hy[j - 1] - hx[j] + hx[j - s]);
            if (keep) k[j] = rate;
            ez[j] += push[j] * rate;
        }
    }
#pragma omp single
    {
        long source = p->source_row * s + p->source_column;
        f[EZ][source] -= e->push[source] * p->amplitudes[n];
        if (keep) keep[source] -= p->amplitudes[n];
        for (int r = 0; r < p->receivers; r++)
            p->traces[(long)(n + 1) * p->receivers + r] = f[EZ][p->receiver_row * s + p->receiver_column + (long)r * p->receiver_step];
    }
}

/* The whole time loop; `history`, if any, has one field a step. */
void light_run(const struct light *e, float *const *f, float *const *history, int steps) {
#pragma omp parallel num_threads(e->threads)
    for (int n = 0; n < steps; n++) light_step(e, f, history ? history[n] : 0, n);
}

/* All adjoint steps. `t` has the cotangents by EZ .. HY, `q` scratch for one product, `g` the sum for `push`. */
void light_back(const struct light *e, float *const *t, float *q, float *g, float *const *history, int steps) {
    long s = e->stride;
    const struct points *p = &e->points;
    float scale = e->scale, per_h = e->per_h;
#pragma omp parallel num_threads(e->threads)
    for (int n = steps - 1; n >= 0; n--) {
#pragma omp single
        for (int r = 0; r < p->receivers; r++)
            t[EZ][p->receiver_row * s + p->receiver_column + (long)r * p->receiver_step] += p->residuals[(long)(n + 1) * p->receivers + r];
#pragma omp for schedule(static)
        for (int i = 0; i < e->rows; i++) {
            long at = i * s;
            const float *tz = t[EZ] + at, *push = e->push + at, *k = history[n] + at;
            float *restrict sum = g + at, *restrict product = q + at;
#pragma omp simd aligned(tz, push, k, sum, product : 64)
            for (int j = 0; j < e->columns; j++) {
                sum[j] += tz[j] * k[j];
                product[j] = per_h * push[j] * tz[j];
            }
        }
#pragma omp for schedule(static)
        for (int i = 0; i < e->rows; i++) {
            long at = i * s;
            const float *product = q + at;
            float *restrict tx = t[HX] + at, *restrict ty = t[HY] + at;
#pragma omp simd aligned(product, tx, ty : 64)
            for (int j = 0; j < e->columns; j++) {
                tx[j] += product[j + s] - product[j];
                ty[j] -= product[j + 1] - product[j];
            }
        }
#pragma omp for schedule(static)
        for (int i = 0; i < e->rows; i++) {
            long at = i * s;
            const float *tx = t[HX] + at, *ty = t[HY] + at;
            float *restrict tz = t[EZ] + at;
#pragma omp simd aligned(tx, ty, tz : 64)
            for (int j = 0; j < e->columns; j++) tz[j] += scale * (tx[j] - tx[j - s]) - scale * (ty[j] - ty[j - 1]);
        }
    }
}
