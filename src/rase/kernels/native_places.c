/* Places of the reports of every bounded law, one word each.
 *
 * A reading stands between two grid points, `index` and the next, at a share of 2^64 between them.
 * The law of its report has partial sums that are mixed of those of the two points and truncated to
 * whole numbers, so that each weight lies between the weights of the two points.
 * Compiled without contraction of a * b + c, so that every float is the one NumPy computes. */

#include "native.h"

/* Each block in three sweeps, of which the first and the last run in vector registers. */
struct spot {
    int32_t index[BLOCK];
    uint64_t share[BLOCK];
};

/* Find the grid points below; tells whether a reading was not finite. */
ALWAYS_INLINE uint64_t find(struct grid grid, const double *reading, struct spot *spot,
                            size_t count)
{
    const double most = (double)grid.steps;
    double exact[BLOCK];
    uint64_t strange = 0;
    for (size_t i = 0; i < count; i++) {
        strange |= (uint64_t)(reading[i] - reading[i] != 0.0); /* infinite, or not a number */
        exact[i] = (reading[i] - grid.low) / grid.step;
        exact[i] = exact[i] > 0.0 ? exact[i] : 0.0; /* NaN goes to 0 */
        exact[i] = exact[i] < most ? exact[i] : most;
    }
    for (size_t i = 0; i < count; i++)
        spot->index[i] = (int32_t)exact[i];
    for (size_t i = 0; i < count; i++)
        spot->share[i] = (uint64_t)(int64_t)((exact[i] - (double)spot->index[i]) * 0x1p63) << 1;
    return strange;
}

ALWAYS_INLINE void store(const int32_t *codes, int64_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = codes[i];
}

/* The share of a weight that belongs to the upper of two points. */
ALWAYS_INLINE uint64_t part(uint64_t share, uint64_t weight)
{
    uint64_t low;
    return product(share, weight, &low);
}

/* Two-sided geometric noise, clamped. The laws of two neighbours are the same noise one step apart,
 * so the first words of each weight round up. Which words those are does not matter in the first
 * and last weight: they lead to an end. */
ALWAYS_INLINE enum outcome clamped_of(struct table table, struct grid grid, const double *readings,
                                      const uint64_t *words, int64_t *out, size_t n)
{
    const int32_t steps = (int32_t)grid.steps;
    uint64_t strange = 0;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        const uint64_t *word = words + first;
        struct spot spot;
        uint32_t noise[BLOCK];
        int32_t codes[BLOCK];
        strange |= find(grid, readings + first, &spot, count);
        draw_block(table, word, noise, count, NULL);
        for (size_t i = 0; i < count; i++) {
            uint64_t start = table.bounds[noise[i]];
            uint64_t rounded = part(spot.share[i], table.bounds[noise[i] + 1] - start);
            codes[i] = spot.index[i] - steps + (int32_t)noise[i] + (word[i] - start < rounded);
        }
        for (size_t i = 0; i < count; i++) {
            int32_t code = codes[i];
            code = code > 0 ? code : 0;
            codes[i] = code < steps ? code : steps;
        }
        store(codes, out + first, count);
    }
    return strange ? NOT_DONE : DONE;
}

VERSIONS(enum outcome, clamped_places,
         (struct table table, struct grid grid, const double *readings, const uint64_t *words,
          int64_t *out, size_t n),
         clamped_of, (table, grid, readings, words, out, n))

/* How often a divisor goes into a word, by its reciprocal UINT64_MAX / divisor, which is short by a
 * little: the quotient by two at most. */
ALWAYS_INLINE uint64_t quotient(uint64_t word, uint64_t divisor, uint64_t reciprocal,
                                uint64_t *rest)
{
    uint64_t found = part(word, reciprocal);
    for (*rest = word - found * divisor; *rest >= divisor; *rest -= divisor)
        found++;
    return found;
}

/* A window of near places that moves with the index, and a bit whose chance is linear in it. */
ALWAYS_INLINE enum outcome window_or_bit_of(struct parts parts, struct grid grid,
                                            const double *readings, const uint64_t *words,
                                            int64_t *out, size_t n)
{
    const uint64_t inside = parts.near * parts.width;
    const uint64_t by_near = UINT64_MAX / parts.near, by_far = UINT64_MAX / parts.far;
    uint64_t strange = 0;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        struct spot spot;
        int32_t codes[BLOCK];
        strange |= find(grid, readings + first, &spot, count);
        for (size_t i = 0; i < count; i++) {
            uint64_t word = words[first + i], share = spot.share[i], rest, place;
            uint64_t index = (uint64_t)spot.index[i];
            if (parts.slope && word >= parts.bit_from) {
                uint64_t high = parts.flip + parts.slope * index + part(share, parts.slope);
                codes[i] = word - parts.bit_from < high ? (int32_t)grid.steps + parts.margin
                                                        : -parts.margin;
                continue;
            }
            if (word < inside) {
                place = quotient(word, parts.near, by_near, &rest);
                /* Of two neighbours' windows only the first place and the next differ. */
                place = place || rest >= part(share, parts.near - parts.far) ? place : parts.width;
                place += index;
            } else {
                place = quotient(word - inside, parts.far, by_far, &rest);
                place += place < index ? 0 : parts.width;
            }
            codes[i] = (int32_t)((uint32_t)place - (uint32_t)parts.half);
        }
        store(codes, out + first, count);
    }
    return strange ? NOT_DONE : DONE;
}

VERSIONS(enum outcome, window_or_bit_places,
         (struct parts parts, struct grid grid, const double *readings, const uint64_t *words,
          int64_t *out, size_t n),
         window_or_bit_of, (parts, grid, readings, words, out, n))

/* The index of the weight of one row that a word falls into. */
ALWAYS_INLINE uint32_t fallen(struct rows rows, size_t row, uint64_t word)
{
    const uint64_t *sums = rows.sums + row * rows.count;
    uint32_t found = rows.guide[(row << (64 - rows.shift)) + (word >> rows.shift)];
    while (found < rows.count && sums[found] <= word)
        found++;
    return found < rows.count ? found : (uint32_t)rows.count;
}

/* A channel of few inputs: the law between two of them is mixed as everywhere. */
ALWAYS_INLINE enum outcome rows_of(struct rows rows, struct grid grid, const double *readings,
                                   const uint64_t *words, int64_t *out, size_t n)
{
    const uint64_t steps = (uint64_t)grid.steps, gaps = rows.inputs - 1;
    uint64_t strange = 0;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        struct spot spot;
        strange |= find(grid, readings + first, &spot, count);
        for (size_t i = 0; i < count; i++) {
            uint64_t word = words[first + i], low;
            uint64_t high = product(spot.share[i], gaps, &low);
            high += (uint64_t)spot.index[i] * gaps;
            size_t below = (size_t)(high / steps), above = below + (below < gaps);
            /* (rest * 2^64 + low) / steps, in two halves; a grid has at most 2^28 steps. */
            uint64_t half = (high % steps) << 32 | low >> 32;
            uint64_t share = half / steps << 32;
            share |= ((half % steps) << 32 | (uint32_t)low) / steps;
            uint32_t found = fallen(rows, below, word), last = fallen(rows, above, word);
            uint32_t start = found < last ? found : last, end = found < last ? last : found;
            const uint64_t *under = rows.sums + below * rows.count;
            const uint64_t *over = rows.sums + above * rows.count;
            for (; start < end; start++) {
                uint64_t a = over[start], b = under[start];
                uint64_t sum = a < b ? b - part(share, b - a) : b + part(share, a - b);
                if (word < sum)
                    break;
            }
            out[first + i] = rows.places[start];
        }
    }
    return strange ? NOT_DONE : DONE;
}

VERSIONS(enum outcome, row_places,
         (struct rows rows, struct grid grid, const double *readings, const uint64_t *words,
          int64_t *out, size_t n),
         rows_of, (rows, grid, readings, words, out, n))
