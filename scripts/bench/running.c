/* Value and gradient of sum(cumprod(x) * x), written by hand: scans over blocks, in two passes each.
 *
 * y_i = y_(i-1) x_i, and the cotangent t_i = x_i + x_(i+1) t_(i+1) of y_i give the gradient t_i y_(i-1) + y_i. The first pass finds what
 * each block does to the value that enters it, the second one computes the entries.
 */
#include <stdlib.h>

#define BLOCK 4096

#define RUNNING(T, NAME)                                                                                                    \
    static T NAME##_value(const T *restrict x, T *restrict y, long n, int threads) {                                         \
        long blocks = (n + BLOCK - 1) / BLOCK;                                                                               \
        T *enters = malloc(blocks * sizeof(T)), total = 0, carry = 1;                                                        \
        _Pragma("omp parallel for num_threads(threads)") for (long b = 0; b < blocks; b++) {                                 \
            long last = (b + 1) * BLOCK < n ? (b + 1) * BLOCK : n;                                                           \
            T product = 1;                                                                                                   \
            for (long i = b * BLOCK; i < last; i++) product *= x[i];                                                         \
            enters[b] = product;                                                                                             \
        }                                                                                                                    \
        for (long b = 0; b < blocks; b++) {                                                                                  \
            T product = enters[b];                                                                                           \
            enters[b] = carry;                                                                                               \
            carry *= product;                                                                                                \
        }                                                                                                                    \
        _Pragma("omp parallel for num_threads(threads) reduction(+ : total)") for (long b = 0; b < blocks; b++) {            \
            long last = (b + 1) * BLOCK < n ? (b + 1) * BLOCK : n;                                                           \
            T value = enters[b], sum = 0;                                                                                    \
            for (long i = b * BLOCK; i < last; i++) y[i] = value *= x[i];                                                    \
            for (long i = b * BLOCK; i < last; i++) sum += x[i] * y[i];                                                      \
            total += sum;                                                                                                    \
        }                                                                                                                    \
        free(enters);                                                                                                        \
        return total;                                                                                                        \
    }                                                                                                                        \
    T NAME(const T *restrict x, T *restrict y, T *restrict bar, long n, int threads) {                                       \
        T total = NAME##_value(x, y, n, threads), carry = 0;                                                                 \
        if (!bar) return total;                                                                                              \
        long blocks = (n + BLOCK - 1) / BLOCK;                                                                               \
        T *enters = malloc(2 * blocks * sizeof(T)), *slopes = enters + blocks;                                               \
        _Pragma("omp parallel for num_threads(threads)") for (long b = 0; b < blocks; b++) {                                 \
            long last = ((b + 1) * BLOCK < n ? (b + 1) * BLOCK : n) - 1;                                                     \
            T value = x[last], slope = last + 1 < n ? x[last + 1] : 0;                                                       \
            for (long i = last - 1; i >= b * BLOCK; i--) value = x[i] + x[i + 1] * value;                                    \
            for (long i = b * BLOCK + 1; i <= last; i++) slope *= x[i];                                                      \
            enters[b] = value, slopes[b] = slope;                                                                            \
        }                                                                                                                    \
        for (long b = blocks - 1; b >= 0; b--) {                                                                             \
            T value = enters[b];                                                                                             \
            enters[b] = carry;                                                                                               \
            carry = value + slopes[b] * carry;                                                                               \
        }                                                                                                                    \
        _Pragma("omp parallel for num_threads(threads)") for (long b = 0; b < blocks; b++) {                                 \
            long first = b * BLOCK, last = ((b + 1) * BLOCK < n ? (b + 1) * BLOCK : n) - 1;                                  \
            T value = x[last] + (last + 1 < n ? x[last + 1] : 0) * enters[b];                                                \
            bar[last] = value;                                                                                               \
            for (long i = last - 1; i >= first; i--) bar[i] = value = x[i] + x[i + 1] * value;                               \
            if (!first) bar[0] += y[0];                                                                                      \
            for (long i = first + !first; i <= last; i++) bar[i] = bar[i] * y[i - 1] + y[i];                                 \
        }                                                                                                                    \
        free(enters);                                                                                                        \
        return total;                                                                                                        \
    }

/* The value of n entries and, unless `bar` is NULL, the gradient. `y` takes the running products. */
RUNNING(float, product_f4)
RUNNING(double, product_f8)
