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
/* Eight numbers are worked off at a time. */
#define LANES 8
/* The smallest and largest state, and the most models, of one family that a caller may ask for. */
#define LEAST_STATES LANES
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
    /* Covariances times what shows in the next rounds, of so many, and how many were used: while
     * changes are kept apart a covariance stays as it is, and is read once for all of them. */
    double *ahead;
    size_t ready, used;
};
/* So many numbers `ahead` needs. */
#define AHEAD(family) (TOGETHER * (family)->count * (family)->size)

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

/* Compilers that know such types keep them in registers. */
#ifdef __GNUC__
typedef double lanes __attribute__((vector_size(8 * LANES)));
typedef double some_lanes __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
#else
typedef struct {
    double x[LANES];
} lanes;
#endif

/* sum += by * x, of eight numbers that may lie anywhere. */
ALWAYS_INLINE void add_times(lanes *sum, double by, const double *x)
{
#ifdef __GNUC__
    *sum += by * *(const some_lanes *)x;
#else
    for (size_t i = 0; i < LANES; i++)
        sum->x[i] += by * x[i];
#endif
}

/* sum += x * y, number by number. */
ALWAYS_INLINE void add_products(lanes *sum, const double *x, const double *y)
{
#ifdef __GNUC__
    *sum += *(const some_lanes *)x * *(const some_lanes *)y;
#else
    for (size_t i = 0; i < LANES; i++)
        sum->x[i] += x[i] * y[i];
#endif
}

/* product *= x, number by number. */
ALWAYS_INLINE void multiply(lanes *product, const double *x)
{
#ifdef __GNUC__
    *product *= *(const some_lanes *)x;
#else
    for (size_t i = 0; i < LANES; i++)
        product->x[i] *= x[i];
#endif
}

/* The sum of eight numbers. */
ALWAYS_INLINE double sum_lanes(const lanes *x)
{
    double s[LANES];
    memcpy(s, x, sizeof s);
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

/* A state is worked off in blocks. The last ends where the state does: it may overlap with the one
 * before, and what both compute is the same. */
#define BLOCKS(size) (((size) + LANES - 1) / LANES)
ALWAYS_INLINE size_t place_of(size_t block, const size_t size)
{
    return (block + 1) * LANES > size ? size - LANES : block * LANES;
}

/* The sum of products. Of `shown`, what the last block has in common with the one before is 0. */
ALWAYS_INLINE double dot_sized(const double *x, const double *shown, const size_t size)
{
    lanes sum = {0};
    for (size_t block = 0; block < BLOCKS(size); block++)
        add_products(&sum, x + place_of(block, size), shown + block * LANES);
    return sum_lanes(&sum);
}

/* Multiply a covariance by what shows in four rounds; it is read once. */
ALWAYS_INLINE void multiply_sized(const double *covariance, const double *const x[4],
                                  double *const out[4], const size_t size)
{
    for (size_t block = 0; block < BLOCKS(size); block++) {
        size_t first = place_of(block, size);
        lanes sums[4] = {{0}};
        for (size_t j = 0; j < size; j++)
            for (size_t r = 0; r < 4; r++)
                add_times(&sums[r], x[r][j], covariance + j * size + first);
        for (size_t r = 0; r < 4; r++)
            memcpy(out[r] + first, &sums[r], sizeof sums[r]);
    }
}

/* Multiply the covariances by what shows in the next rounds. */
ALWAYS_INLINE void look_ahead_sized(struct family *family, const double *seen, const size_t size)
{
    size_t count = family->count, ready = family->ready;
    for (size_t k = 0; k < count; k++) {
        const double *covariance = family->covariance + k * size * size;
        for (size_t r = 0; r < ready; r += 4) {
            const double *x[4];
            double *out[4];
            for (size_t one = 0; one < 4; one++) {
                size_t round = r + one < ready ? r + one : ready - 1;
                x[one] = seen + round * size;
                out[one] = family->ahead + (round * count + k) * size;
            }
            multiply_sized(covariance, x, out, size);
        }
    }
}

/* Say what each model expects of a round in which so much of each part shows. */
ALWAYS_INLINE void predict_sized(const struct family *family, const double *seen, double *means,
                                 double *variances, double *gains, const size_t size)
{
    size_t count = family->count, stride = count * size;
    const double *ahead = family->ahead + family->used * stride;
    double shown[MOST_STATES], along[TOGETHER], kept[LANES];
    for (size_t i = 0; i < LANES; i++)
        kept[i] = 1.0;
    for (size_t block = 0; block < BLOCKS(size); block++)
        for (size_t i = 0; i < LANES; i++) {
            size_t place = place_of(block, size) + i;
            shown[block * LANES + i] = place < block * LANES ? 0.0 : seen[place];
        }
    for (size_t k = 0; k < count; k++) {
        const double *second = family->covariance + k * size * size + size;
        const double *vectors = family->vectors + k * size, *added = family->added + k * size;
        lanes gain[MOST_STATES / LANES], variance = {0};
        kept[1] = family->left[k];
        for (size_t b = 0; b < family->pending; b++)
            along[b] = dot_sized(vectors + b * stride, shown, size);
        for (size_t block = 0; block < BLOCKS(size); block++) {
            size_t first = place_of(block, size);
            lanes sum;
            memcpy(&sum, ahead + k * size + first, sizeof sum);
            add_times(&sum, (kept[1] - 1) * seen[1], second + first);
            if (block == 0)
                multiply(&sum, kept);
            add_products(&sum, added + first, seen + first);
            for (size_t b = 0; b < family->pending; b++)
                add_times(&sum, -along[b], vectors + b * stride + first);
            gain[block] = sum;
            add_products(&variance, (const double *)&gain[block], shown + block * LANES);
        }
        for (size_t block = 0; block < BLOCKS(size); block++)
            memcpy(gains + k * size + place_of(block, size), &gain[block], sizeof gain[block]);
        means[k] = dot_sized(family->state + k * size, shown, size);
        variances[k] = sum_lanes(&variance);
    }
}

/* Apply to the covariances what was kept apart. */
ALWAYS_INLINE void apply_sized(struct family *family, const size_t size)
{
    size_t count = family->count, stride = count * size;
    for (size_t k = 0; k < count; k++) {
        double *covariance = family->covariance + k * size * size, left = family->left[k];
        for (size_t i = 0; i < size; i++)
            covariance[size + i] *= left;
        for (size_t i = 0; i < size; i++)
            covariance[i * size + 1] *= left;
        for (size_t i = 0; i < size; i++)
            covariance[i * size + i] += family->added[k * size + i];
        /* A product of a matrix with itself is symmetric to the last bit. */
        const double *vectors = family->vectors + k * size;
        for (size_t i = 0; i < size; i++) {
            double *row = covariance + i * size;
            lanes sums[MOST_STATES / LANES];
            for (size_t block = 0; block < BLOCKS(size); block++) {
                size_t first = place_of(block, size);
                memcpy(&sums[block], row + first, sizeof sums[block]);
                for (size_t b = 0; b < TOGETHER; b++)
                    add_times(&sums[block], -vectors[b * stride + i], vectors + b * stride + first);
            }
            for (size_t block = 0; block < BLOCKS(size); block++)
                memcpy(row + place_of(block, size), &sums[block], sizeof sums[block]);
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

/* As `predict_sized`; `seen` goes on with what shows in the rounds after this one, so many with it. */
ALWAYS_INLINE void predict(struct family *family, const double *seen, size_t rounds, double *means,
                           double *variances, double *gains)
{
    if (family->used == family->ready) {
        size_t most = TOGETHER - family->pending;
        family->ready = rounds < most ? rounds : most;
        family->used = 0;
#define LOOK(size) look_ahead_sized(family, seen, size)
        SIZED(family->size, LOOK, family->size);
#undef LOOK
    }
#define PREDICT(size) predict_sized(family, seen, means, variances, gains, size)
    SIZED(family->size, PREDICT, family->size);
#undef PREDICT
    family->used++;
}

/* Take a round in, of which so much was expected. */
ALWAYS_INLINE void take(struct family *family, const double *gains, const double *surprises,
                        const double *totals)
{
    size_t size = family->size, count = family->count;
    double *vectors = family->vectors + family->pending * count * size;
    for (size_t k = 0; k < count; k++) {
        double scale = 1 / sqrt(totals[k]), off = surprises[k] / totals[k];
        const double *restrict gain = gains + k * size;
        double *restrict vector = vectors + k * size, *restrict state = family->state + k * size;
        for (size_t i = 0; i < size; i++)
            vector[i] = gain[i] * scale;
        for (size_t i = 0; i < size; i++)
            state[i] += gain[i] * off;
    }
    family->pending++;
    if (family->pending == TOGETHER) {
#define APPLY(size) apply_sized(family, size)
        SIZED(size, APPLY, size);
#undef APPLY
    }
}

#endif
