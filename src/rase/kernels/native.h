/* What the parts of rase.kernels._native share: plain C over plain arrays, no Python in sight.
 *
 * Every function is pure: the same words give the same result as its NumPy twin. None keeps state
 * between calls, and none trusts its input: whatever the arrays hold, no access leaves them. */

#ifndef RASE_NATIVE_H
#define RASE_NATIVE_H

#include <stddef.h>
#include <stdint.h>

/* Counts are 32 bits wide inside the trees; the callers refuse longer orders. */
#define MOST_ITEMS ((size_t)INT32_MAX)

#ifdef __GNUC__
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE static inline
#endif

/* The newest instructions compiled: 0 none beyond plain C, 1 AVX2 and BMI2, 2 AVX-512. Fewer than all
 * are for tests on machines that have them. */
#ifndef RASE_INSTRUCTIONS
#define RASE_INSTRUCTIONS 2
#endif

/* Define `name` as a call of `body`, compiled for every machine and, chosen at run time, for newer
 * ones. */
#if defined(__x86_64__) && defined(__GNUC__) && RASE_INSTRUCTIONS > 0
#define VERSIONS(type, name, parameters, body, arguments)                                          \
    __attribute__((target("avx512f,avx512dq,avx512vl"))) static type name##_512 parameters         \
    {                                                                                              \
        return body arguments;                                                                     \
    }                                                                                              \
    __attribute__((target("avx2"))) static type name##_256 parameters { return body arguments; }   \
    static type name##_portable parameters { return body arguments; }                              \
    type name parameters                                                                           \
    {                                                                                              \
        if (RASE_INSTRUCTIONS > 1 && __builtin_cpu_supports("avx512dq") &&                         \
            __builtin_cpu_supports("avx512vl"))                                                    \
            return name##_512 arguments;                                                           \
        if (__builtin_cpu_supports("avx2"))                                                        \
            return name##_256 arguments;                                                           \
        return name##_portable arguments;                                                          \
    }
#else
#define VERSIONS(type, name, parameters, body, arguments)                                          \
    type name parameters { return body arguments; }
#endif

/* Numbers are worked off in blocks that stay in the nearest cache. */
#define BLOCK 256

/* A grid has 65536 steps at most; far more would still fit 32 bits. */
#define MOST_STEPS ((long long)1 << 28)

enum outcome { DONE = 0, NOT_DONE = 1, NO_MEMORY = 2 };

/* Integer weights that add up to 2^64: the bounds between which the words of weight i fall are
 * bounds[i] and bounds[i + 1]. Behind the last they are 2^64 - 1, up to a power of two of weights,
 * so that no guide leads out of them. A guide holds for each value of a word's leading bits the
 * first weight such words fall into, marked where more than one boundary lies among them. */
struct table {
    const uint64_t *bounds;
    size_t count; /* of boundaries: one less than weights */
    uint32_t mask;
    const uint32_t *guide;
    unsigned shift;
};
#define CROWDED ((uint32_t)1 << 31)

/* native_draws.c */
enum outcome integers_below(const uint64_t *words, const int64_t *bounds, int64_t *out, size_t n);
void draw_indices(struct table table, const uint64_t *words, int64_t *out, size_t n);
enum outcome add_settled(struct table table, const uint64_t *words, uint64_t weight,
                         uint64_t *values, size_t n, int is_endless);

/* native_places.c */
struct grid {
    double low, step;
    int64_t steps;
};
/* How 2^64 words are shared between a window and a bit; see rase.laws.parts. */
struct parts {
    uint64_t bit_from, near, far, width, flip, slope;
    int32_t half, margin;
};
/* Partial sums of `inputs` rows of integer weights, the last of each 2^64 - 1, the last row twice;
 * and the place that each weight stands for. The guide holds, for each row, each of 2^ROW_BITS parts of the way to the
 * next and each of 2^WORD_BITS values of a word's leading bits, the first weight that such words
 * reach, marked where they may reach more than the next. */
struct rows {
    const uint64_t *sums;
    const uint16_t *guide;
    const int64_t *places;
    size_t inputs, count;
};
#define ROW_BITS 2
#define WORD_BITS 9
#define FAR_APART ((uint32_t)1 << 15)
enum outcome clamped_places(struct table table, struct grid grid, const double *readings,
                             const uint64_t *words, int64_t *out, size_t n);
enum outcome window_or_bit_places(struct parts parts, struct grid grid, const double *readings,
                                   const uint64_t *words, int64_t *out, size_t n);
enum outcome row_places(struct rows rows, struct grid grid, const double *readings,
                         const uint64_t *words, int64_t *out, size_t n);

/* native_orders.c */
enum outcome swap_rows(const uint64_t *words, uint64_t *rows, size_t rounds, size_t n);
enum outcome partners_of(const uint64_t *words, size_t start, size_t n, int64_t *out, size_t count);
enum outcome interchange(const int64_t *partners, void *entries, size_t size, size_t start,
                         size_t n, size_t count);
enum outcome order_from_swaps(const int64_t *partners, int64_t *out, size_t n);
enum outcome replace_items(uint64_t *order, const uint64_t *values, size_t n);
enum outcome orders_from_codes(const uint64_t *codes, int64_t *out, size_t rounds, size_t n,
                               int is_free);
enum outcome count_inversions(const int64_t *order, size_t n, uint64_t *total);
enum outcome count_disagreements(const int64_t *a, const int64_t *b, size_t n, uint64_t *total);
enum outcome check_permutation(const int64_t *entries, size_t n);
const char *instructions_used(void);

/* The weight a word falls into. */
ALWAYS_INLINE uint32_t drawn(struct table table, uint64_t word)
{
    uint32_t index = table.guide[word >> table.shift] & table.mask;
    while (index < table.count && table.bounds[index + 1] <= word)
        index++;
    return index;
}

/* Draw a block of at most BLOCK indices; the word 2^64 - 1 may be led one too far. One step each
 * and no branch, for boundaries are unpredictable; words of crowded cells are listed, again without
 * a branch, and drawn with as many steps as they need. *touched, where asked for, becomes other than
 * 0 if a word may equal the boundary at which its weight begins. */
ALWAYS_INLINE void draw_block(struct table table, const uint64_t *words, uint32_t *out, size_t n,
                              uint64_t *touched)
{
    uint32_t cells = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t cell = table.guide[words[i] >> table.shift], index = cell & table.mask;
        uint64_t next = table.bounds[index + 1];
        cells |= cell;
        out[i] = index + (uint32_t)(next <= words[i]);
        /* A boundary before the next lies at the first word of the cell or before it. */
        if (touched)
            *touched |= (uint64_t)(next == words[i]) | (uint64_t)!(words[i] << (64 - table.shift));
    }
    if (!(cells & CROWDED))
        return;
    uint16_t again[BLOCK];
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        again[count] = (uint16_t)i;
        count += table.guide[words[i] >> table.shift] >> 31;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t word = words[again[i]];
        out[again[i]] = drawn(table, word);
        if (touched)
            *touched |= (uint64_t)(table.bounds[out[again[i]]] == word);
    }
}

/* The high and the low half of a 128-bit product. */
static inline uint64_t product(uint64_t a, uint64_t b, uint64_t *low)
{
#if defined(__SIZEOF_INT128__) && RASE_INSTRUCTIONS > 0
    unsigned __int128 whole = (unsigned __int128)a * b;
    *low = (uint64_t)whole;
    return (uint64_t)(whole >> 64);
#else
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
    uint64_t other = a0 * b1 + (uint32_t)middle;
    *low = a * b;
    return a1 * b1 + (middle >> 32) + (other >> 32);
#endif
}

/* Lemire's multiply-and-reject; a word that must be drawn again sets *again. */
static inline uint64_t below(uint64_t word, uint64_t bound, int *again)
{
    uint64_t low, high = product(word, bound, &low);
    if (low < bound) /* seldom: only then is the division worth its time */
        *again |= low < (0 - bound) % bound;
    return high;
}

#endif
