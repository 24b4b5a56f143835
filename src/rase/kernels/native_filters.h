/* Kalman filters of one shape, and the elementary functions that they and their mixture need.
 *
 * The reference is NumPy: rase.series.families, smoother, bank and posterior. Sums run in another
 * order here, so results agree to rounding, not to the last bit; those of C are the same on every
 * machine, whatever its instructions. */

#ifndef RASE_NATIVE_FILTERS_H
#define RASE_NATIVE_FILTERS_H

#include <math.h>
#include <string.h>

#include "native.h"

/* So many rounds' changes of the covariances are kept apart: rase.series.families.TOGETHER. */
#define TOGETHER 8
/* The largest state and the most models of one family that a caller may ask for. */
#define MOST_STATES 64
#define MOST_MODELS 256

/* The arrays of one rase.series.families.Family of one run. */
struct family {
    double *state, *covariance, *left, *added, *vectors;
    const double *lasting_s, *drift_per_s, *irregular;
    size_t count, size, pending;
    /* For how much time `kept` says what is left. */
    double kept_s;
    double *kept;
};

/* native_filters.c */
struct filtered {
    double *surprises, *totals, *gains; /* gains may be NULL */
};
enum outcome filter_rounds(struct family *family, const double *rounds, const double *seen,
                           size_t count, struct filtered out);
struct passed {
    const double *rounds, *seen, *lasting_s, *surprises, *totals, *gains;
    size_t count, models, size;
};
enum outcome look_back(struct passed passed, double *vector, double *matrix, double *means,
                       double *variances);

/* The natural exponential to about one unit in the last place, without branches, so that compilers
 * take several numbers at a time; 0 below -708, as if -708 or 709 beyond that. */
ALWAYS_INLINE double exp_of(double x)
{
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to a whole number */
    double y = x < -708.0 ? -708.0 : x;
    y = y > 709.0 ? 709.0 : y;
    double shifted = y * 1.4426950408889634 + shift, n = shifted - shift;
    double r = (y - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double p = 1.6059043836821613e-10;
    p = p * r + 2.0876756987868099e-09;
    p = p * r + 2.505210838544172e-08;
    p = p * r + 2.7557319223985893e-07;
    p = p * r + 2.7557319223985891e-06;
    p = p * r + 2.4801587301587302e-05;
    p = p * r + 1.9841269841269841e-04;
    p = p * r + 1.3888888888888889e-03;
    p = p * r + 8.3333333333333332e-03;
    p = p * r + 4.1666666666666664e-02;
    p = p * r + 1.6666666666666666e-01;
    p = p * r + 0.5;
    p = r + p * (r * r);
    uint64_t bits;
    memcpy(&bits, &shifted, 8);
    bits = (bits + 1023) << 52;
    double power;
    memcpy(&power, &bits, 8);
    double found = power + power * p;
    return x < -708.0 ? 0.0 : found;
}

/* The natural logarithm of a normal positive number, likewise (FreeBSD's e_log.c, 1993). */
ALWAYS_INLINE double log_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, 8);
    /* From sqrt(1/2) to sqrt(2), and a power of two. */
    uint64_t moved = bits - 0x3fe6a09e667f3bcdULL;
    uint64_t power = (moved >> 52) & 0xfff;
    uint64_t inner = bits - (moved & 0xfff0000000000000ULL);
    double m;
    memcpy(&m, &inner, 8);
    /* As a number, without a conversion that few instruction sets have: 2^52 + power + 2048. */
    uint64_t whole = ((power + 0x800) & 0xfff) | 0x4330000000000000ULL;
    double k;
    memcpy(&k, &whole, 8);
    k -= 4503599627370496.0 + 2048.0;
    double f = m - 1.0, s = f / (2.0 + f), z = s * s, w = z * z;
    double t1 = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    double t2 = z * (6.666666666666735130e-01 + w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    double half = 0.5 * f * f, r = t1 + t2;
    return k * 6.93147180369123816490e-01 - ((half - (s * (half + r) + k * 1.90821492927058770002e-10)) - f);
}

/* Let time pass for the states of all models. */
ALWAYS_INLINE void advance(struct family *family, double passed_s)
{
    size_t size = family->size;
    if (passed_s != family->kept_s) {
        for (size_t k = 0; k < family->count; k++)
            family->kept[k] = exp(-passed_s / family->lasting_s[k]);
        family->kept_s = passed_s;
    }
    for (size_t k = 0; k < family->count; k++) {
        double left = family->kept[k], *added = family->added + k * size;
        const double *drift = family->drift_per_s + k * size;
        family->state[k * size + 1] *= left;
        family->left[k] *= left;
        for (size_t b = 0; b < family->pending; b++)
            family->vectors[(b * family->count + k) * size + 1] *= left;
        added[1] *= left * left;
        for (size_t i = 0; i < size; i++)
            added[i] += passed_s * drift[i];
        added[1] += family->irregular[k] * (1 - left * left);
    }
}

/* Say what each model expects of a round in which so much of each part shows. */
ALWAYS_INLINE void predict_sized(const struct family *family, const double *seen, double *means,
                                 double *variances, double *gains, const size_t size)
{
    size_t count = family->count;
    for (size_t k = 0; k < count; k++) {
        const double *covariance = family->covariance + k * size * size;
        const double *added = family->added + k * size, *state = family->state + k * size;
        double g[MOST_STATES] = {0}, left = family->left[k];
        for (size_t j = 0; j < size; j++)
            for (size_t i = 0; i < size; i++)
                g[i] += seen[j] * covariance[j * size + i];
        double gone = (1 - left) * seen[1];
        for (size_t i = 0; i < size; i++)
            g[i] -= gone * covariance[size + i];
        g[1] *= left;
        for (size_t i = 0; i < size; i++)
            g[i] += added[i] * seen[i];
        double taken[MOST_STATES] = {0};
        for (size_t b = 0; b < family->pending; b++) {
            const double *vector = family->vectors + (b * count + k) * size;
            double along = 0;
            for (size_t i = 0; i < size; i++)
                along += vector[i] * seen[i];
            for (size_t i = 0; i < size; i++)
                taken[i] += along * vector[i];
        }
        double mean = 0, variance = 0;
        for (size_t i = 0; i < size; i++) {
            double gain = g[i] - taken[i];
            gains[k * size + i] = gain;
            mean += state[i] * seen[i];
            variance += gain * seen[i];
        }
        means[k] = mean;
        variances[k] = variance;
    }
}

/* Apply to the covariances what was kept apart. */
ALWAYS_INLINE void apply_sized(struct family *family, const size_t size)
{
    size_t count = family->count;
    for (size_t k = 0; k < count; k++) {
        double *covariance = family->covariance + k * size * size, left = family->left[k];
        for (size_t i = 0; i < size; i++)
            covariance[size + i] *= left;
        for (size_t i = 0; i < size; i++)
            covariance[i * size + 1] *= left;
        for (size_t i = 0; i < size; i++)
            covariance[i * size + i] += family->added[k * size + i];
        /* A product of a matrix with itself is symmetric to the last bit. */
        for (size_t i = 0; i < size; i++) {
            double sums[MOST_STATES] = {0};
            for (size_t b = 0; b < TOGETHER; b++) {
                const double *vector = family->vectors + (b * count + k) * size;
                for (size_t j = 0; j < size; j++)
                    sums[j] += vector[i] * vector[j];
            }
            for (size_t j = 0; j < size; j++)
                covariance[i * size + j] -= sums[j];
        }
        family->left[k] = 1.0;
    }
    memset(family->added, 0, count * size * sizeof(double));
    family->pending = 0;
}

/* Shapes of rase.series.models and cycle are compiled with their sizes, so that sums stay in
 * registers. */
#define SIZED(size, call, other)                                                                   \
    do {                                                                                           \
        if ((size) == 20)                                                                          \
            call(20);                                                                              \
        else if ((size) == 34)                                                                     \
            call(34);                                                                              \
        else if ((size) == 16)                                                                     \
            call(16);                                                                              \
        else                                                                                       \
            call(other);                                                                           \
    } while (0)

ALWAYS_INLINE void predict(const struct family *family, const double *seen, double *means,
                           double *variances, double *gains)
{
#define PREDICT(size) predict_sized(family, seen, means, variances, gains, size)
    SIZED(family->size, PREDICT, family->size);
#undef PREDICT
}

/* Take a round in, of which so much was expected. */
ALWAYS_INLINE void take(struct family *family, const double *gains, const double *surprises,
                        const double *totals)
{
    size_t size = family->size, count = family->count;
    double *vectors = family->vectors + family->pending * count * size;
    for (size_t k = 0; k < count; k++) {
        double root = sqrt(totals[k]), off = surprises[k] / totals[k];
        for (size_t i = 0; i < size; i++) {
            vectors[k * size + i] = gains[k * size + i] / root;
            family->state[k * size + i] += gains[k * size + i] * off;
        }
    }
    family->pending++;
    if (family->pending == TOGETHER) {
#define APPLY(size) apply_sized(family, size)
        SIZED(size, APPLY, size);
#undef APPLY
    }
}

#endif
