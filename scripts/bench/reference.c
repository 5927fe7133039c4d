/* The yardstick: the same schemes as diffsim's, written by hand for one machine.
 *
 * A field is rows of floats with a zero halo around them; a pointer to it means its cell (0, 0), `stride` is the distance
 * of two rows. The caller aligns cells (0, 0) to 64 bytes, keeps the stride off multiples of 4 KiB (rows of a stencil would
 * share cache sets) and gives an even number of rows. Rows are computed in pairs, so that what both read is loaded once.
 * Spacing and time step are folded into the coefficients: m = (c dt / h)^2, k = kappa dt / (2 h^2).
 */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xmmintrin.h>

#define INLINE static inline __attribute__((always_inline))
#define HUGE_PAGE (2ul << 20)

struct wave {
    int order, threads, rows, columns;
    long stride;
    const float *m;
    int source_row, source_column;
    const float *amplitudes; /* one a step */
    int receiver_row, receiver_column, receiver_step, receivers;
    float *traces;          /* steps + 1 rows of receivers */
    const float *residuals; /* the same shape */
};

struct heat {
    int threads, rows, columns;
    long stride;
    const float *k; /* halo filled by mirroring */
};

/* Zeroed memory in huge pages where the system has them. */
void *allocate(unsigned long bytes) {
    void *block = NULL;
    bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (posix_memalign(&block, HUGE_PAGE, bytes)) return NULL;
    madvise(block, bytes, MADV_HUGEPAGE);
    memset(block, 0, bytes);
    return block;
}

void release(void *block) { free(block); }

#define FLUSH_TO_ZERO 0x8040u /* and denormals are zero */

static unsigned found; /* of the calling thread, which diffsim runs in too */

/* Start the threads before a timing, all of them flushing to zero. */
void wake(int threads) {
    found = _mm_getcsr();
#pragma omp parallel num_threads(threads)
    _mm_setcsr(_mm_getcsr() | FLUSH_TO_ZERO);
}

/* End the threads after it, whose spinning would take a core from others, and leave this one as it was. Taichi has set it to flush to
 * zero as well; if it did not any more, diffsim's kernels would do something else in it than in Taichi's threads. */
void rest(void) {
    omp_pause_resource_all(omp_pause_hard);
    _mm_setcsr(found);
}

INLINE float around(const float *a, long s, int k) { return a[-k] + a[k] + a[-k * s] + a[k * s]; }

INLINE float laplacian(const float *a, long s, int order) {
    if (order == 4) return -5.0f * a[0] + (4.0f / 3) * around(a, s, 1) + (-1.0f / 12) * around(a, s, 2);
    return (-205.0f / 36) * a[0] + 1.6f * around(a, s, 1) + -0.2f * around(a, s, 2) + (8.0f / 315) * around(a, s, 3) +
           (-1.0f / 560) * around(a, s, 4);
}

/* Two rows of next = 2 p - prev + m lap(p), `next` in the place of `prev`. */
INLINE void wave_rows(int order, int keeps, float *restrict q, const float *restrict p, const float *restrict m, float *restrict keep, long s,
                      int columns) {
#pragma omp simd aligned(q, p, m : 64)
    for (int j = 0; j < columns; j++) {
        float upper = laplacian(p + j, s, order), lower = laplacian(p + j + s, s, order);
        q[j] = 2 * p[j] - q[j] + m[j] * upper;
        q[j + s] = 2 * p[j + s] - q[j + s] + m[j + s] * lower;
        if (keeps) keep[j] = upper, keep[j + s] = lower;
    }
}

/* Called by all threads of a region. */
INLINE void wave_step_in_region(const struct wave *w, float *q, const float *p, float *keep, int n) {
    long s = w->stride;
    int order = w->order, columns = w->columns;
#pragma omp for schedule(static)
    for (int i = 0; i < w->rows; i += 2) {
        long at = i * s;
        if (order == 8 && keep) wave_rows(8, 1, q + at, p + at, w->m + at, keep + at, s, columns);
        if (order == 8 && !keep) wave_rows(8, 0, q + at, p + at, w->m + at, q, s, columns);
        if (order == 4 && keep) wave_rows(4, 1, q + at, p + at, w->m + at, keep + at, s, columns);
        if (order == 4 && !keep) wave_rows(4, 0, q + at, p + at, w->m + at, q, s, columns);
        if (i == (w->source_row & ~1)) {
            long source = w->source_row * s + w->source_column;
            q[source] += w->m[source] * w->amplitudes[n];
            if (keep) keep[source] += w->amplitudes[n];
        }
    }
    /* the next step writes to `p`'s place, not to `q`'s: no barrier */
    const float *row = q + w->receiver_row * s + w->receiver_column;
    float *trace = w->traces + (long)(n + 1) * w->receivers;
#pragma omp for schedule(static) nowait
    for (int r = 0; r < w->receivers; r++) trace[r] = row[(long)r * w->receiver_step];
}

/* The whole time loop; after an even number of steps `p` is the last pressure. */
void wave_run(const struct wave *w, float *q, float *p, int steps) {
#pragma omp parallel num_threads(w->threads)
    for (int n = 0; n < steps; n++) {
        if (n % 2) wave_step_in_region(w, p, q, NULL, n);
        else wave_step_in_region(w, q, p, NULL, n);
    }
}

/* One step; `keep`, if any, gets the Laplacian with the source: what the gradient for m multiplies. */
void wave_step(const struct wave *w, float *q, const float *p, float *keep, int n) {
#pragma omp parallel num_threads(w->threads)
    wave_step_in_region(w, q, p, keep, n);
}

/* Two rows of lam = 2 lam1 - lam2 + lap(m lam1), in the place of lam2, of m lam for the coming step, and of the gradient. */
INLINE void adjoint_rows(int order, int kept, float *restrict lam2, const float *restrict lam1, const float *restrict product,
                         float *restrict product_next, const float *restrict m, const float *restrict primal, float *restrict g, long s,
                         int columns) {
#pragma omp simd aligned(lam2, lam1, product, product_next, m, g : 64)
    for (int j = 0; j < columns; j++) {
        float upper = 2 * lam1[j] - lam2[j] + laplacian(product + j, s, order);
        float lower = 2 * lam1[j + s] - lam2[j + s] + laplacian(product + j + s, s, order);
        lam2[j] = upper;
        lam2[j + s] = lower;
        product_next[j] = m[j] * upper;
        product_next[j + s] = m[j + s] * lower;
        g[j] += lam1[j] * (kept ? primal[j] : laplacian(primal + j, s, order));
        g[j + s] += lam1[j + s] * (kept ? primal[j + s] : laplacian(primal + j + s, s, order));
    }
}

/* Adjoint of step n. `primal` is the kept Laplacian, or (kept = 0) the pressure before step n. */
void adjoint_step(const struct wave *w, float *lam2, const float *lam1, const float *product, float *product_next, const float *primal, int kept,
                  float *g, int n) {
    long s = w->stride;
    int order = w->order, columns = w->columns;
    const float *residual = w->residuals + (long)n * w->receivers;
#pragma omp parallel for schedule(static) num_threads(w->threads)
    for (int i = 0; i < w->rows; i += 2) {
        long at = i * s;
#define ROWS(ORDER, KEPT) \
    adjoint_rows(ORDER, KEPT, lam2 + at, lam1 + at, product + at, product_next + at, w->m + at, primal + at, g + at, s, columns)
        if (order == 8 && kept) ROWS(8, 1);
        if (order == 8 && !kept) ROWS(8, 0);
        if (order == 4 && kept) ROWS(4, 1);
        if (order == 4 && !kept) ROWS(4, 0);
#undef ROWS
        if (!kept && i == (w->source_row & ~1)) {
            long source = w->source_row * s + w->source_column;
            g[source] += lam1[source] * w->amplitudes[n];
        }
        if (i == (w->receiver_row & ~1)) {
            for (int r = 0; r < w->receivers; r++) {
                long cell = w->receiver_row * s + w->receiver_column + (long)r * w->receiver_step;
                lam2[cell] += residual[r];
                product_next[cell] = w->m[cell] * lam2[cell];
            }
        }
    }
}

/* A snapshot: two fields of `bytes` bytes each, halo included; the first alone if `to_prev` is NULL. */
void copy_state(float *to, float *to_prev, const float *from, const float *from_prev, unsigned long bytes, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int part = 0; part < 2 * threads; part++) {
        if (part % 2 && !to_prev) continue;
        unsigned long first = bytes * (part / 2) / threads / 64 * 64;
        unsigned long last = part / 2 == threads - 1 ? bytes : bytes * (part / 2 + 1) / threads / 64 * 64;
        char *target = part % 2 ? (char *)to_prev : (char *)to;
        memcpy(target + first, (part % 2 ? (const char *)from_prev : (const char *)from) + first, last - first);
    }
}

/* Two rows of T + div(kappa grad T); each face between them is computed once. */
INLINE void heat_rows(float *restrict next, const float *restrict t, const float *restrict k, long s, int columns) {
#pragma omp simd aligned(next, t, k : 64)
    for (int j = 0; j < columns; j++) {
        float middle = (k[j] + k[j + s]) * (t[j + s] - t[j]);
        next[j] = t[j] + middle + (k[j] + k[j - s]) * (t[j - s] - t[j]) + (k[j] + k[j - 1]) * (t[j - 1] - t[j]) +
                  (k[j] + k[j + 1]) * (t[j + 1] - t[j]);
        const float *tt = t + s, *kk = k + s;
        next[j + s] = tt[j] - middle + (kk[j] + kk[j + s]) * (tt[j + s] - tt[j]) + (kk[j] + kk[j - 1]) * (tt[j - 1] - tt[j]) +
                      (kk[j] + kk[j + 1]) * (tt[j + 1] - tt[j]);
    }
}

/* The whole time loop with insulated edges: the halo, one cell wide, mirrors the outermost cells. `t` has it filled. */
void heat_run(const struct heat *h, float *t, float *other, int steps) {
    long s = h->stride;
    int columns = h->columns, rows = h->rows;
#pragma omp parallel num_threads(h->threads)
    for (int n = 0; n < steps; n++) {
        float *next = n % 2 ? t : other;
        const float *now = n % 2 ? other : t;
#pragma omp for schedule(static)
        for (int i = 0; i < rows; i += 2) {
            heat_rows(next + i * s, now + i * s, h->k + i * s, s, columns);
            for (int row = i; row < i + 2; row++) {
                next[row * s - 1] = next[row * s];
                next[row * s + columns] = next[row * s + columns - 1];
            }
            if (i == 0) memcpy(next - s, next, columns * sizeof(float));
            if (i == rows - 2) memcpy(next + rows * s, next + (rows - 1) * s, columns * sizeof(float));
        }
    }
}
