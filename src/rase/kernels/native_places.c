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

/* A whole number divided by steps, by their reciprocal UINT64_MAX / steps: short by one at most. */
ALWAYS_INLINE uint64_t ratio(uint64_t number, uint64_t steps, uint64_t reciprocal, uint64_t *rest)
{
    uint64_t found = part(number, reciprocal), left = number - found * steps;
    uint64_t is_short = left >= steps;
    *rest = left - (is_short ? steps : 0);
    return found + is_short;
}

/* A share of the way from one partial sum to another, truncated towards the first. */
ALWAYS_INLINE uint64_t mixed(uint64_t from, uint64_t to, uint64_t share)
{
    uint64_t falls = 0 - (uint64_t)(to < from);
    return from + ((part(share, ((to - from) ^ falls) - falls) ^ falls) - falls);
}

/* Which row lies at or below each spot, and the share of 2^64 towards the next, which takes the
 * place of the share between two grid points. */
ALWAYS_INLINE void find_rows(uint64_t gaps, uint64_t steps, struct spot *spot, uint32_t *row,
                             size_t count)
{
    const uint64_t width = steps / gaps, reciprocal = UINT64_MAX / steps;
    if (gaps * width == steps && width > 1 && !(width & (width - 1))) {
        /* As many steps to every row, a power of two: the usual grids. */
        unsigned shift = 0;
        while (width >> shift > 1)
            shift++;
        for (size_t i = 0; i < count; i++) {
            uint64_t index = (uint64_t)spot->index[i];
            row[i] = (uint32_t)(index >> shift);
            spot->share[i] = index << (64 - shift) | spot->share[i] >> shift;
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t low, rest, high = product(spot->share[i], gaps, &low);
        high += (uint64_t)spot->index[i] * gaps;
        row[i] = (uint32_t)ratio(high, steps, reciprocal, &rest);
        /* (rest * 2^64 + low) / steps, in two halves; a grid has at most 2^28 steps. */
        uint64_t share = ratio(rest << 32 | low >> 32, steps, reciprocal, &rest) << 32;
        spot->share[i] = share | ratio(rest << 32 | (uint32_t)low, steps, reciprocal, &rest);
    }
}

/* A channel of few inputs: the law between two of them is mixed as everywhere. */
ALWAYS_INLINE enum outcome rows_of(struct rows rows, struct grid grid, const double *readings,
                                   const uint64_t *words, int64_t *out, size_t n)
{
    const uint32_t width = (uint32_t)rows.count, last = width - 1;
    const uint64_t *over = rows.sums + width;
    uint64_t strange = 0;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t count = n - first < BLOCK ? n - first : BLOCK, waiting = 0;
        const uint64_t *word = words + first;
        struct spot spot;
        uint32_t row[BLOCK], cell[BLOCK], sum[BLOCK];
        uint16_t again[BLOCK];
        strange |= find(grid, readings + first, &spot, count);
        find_rows(rows.inputs - 1, (uint64_t)grid.steps, &spot, row, count);
        for (size_t i = 0; i < count; i++)
            cell[i] = (row[i] << ROW_BITS | (uint32_t)(spot.share[i] >> (64 - ROW_BITS)))
                          << WORD_BITS |
                      (uint32_t)(word[i] >> (64 - WORD_BITS));
        for (size_t i = 0; i < count; i++) {
            cell[i] = rows.guide[cell[i]];
            again[waiting] = (uint16_t)i;
            waiting += cell[i] >> 15;
        }
        for (size_t i = 0; i < count; i++) {
            uint32_t start = cell[i] & (FAR_APART - 1);
            row[i] *= width;
            sum[i] = row[i] + (start < last ? start : last);
        }
        /* One step each, as in draw_block. */
        for (size_t i = 0; i < count; i++)
            sum[i] += mixed(rows.sums[sum[i]], over[sum[i]], spot.share[i]) <= word[i];
        /* Those listed take two more steps together, and what few are left go on alone. */
        for (int step = 0; step < 2; step++) {
            size_t listed = waiting;
            waiting = 0;
            for (size_t j = 0; j < listed; j++) {
                size_t i = again[j];
                uint32_t at = sum[i], end = row[i] + last;
                at = at < end ? at : end;
                uint32_t passed = mixed(rows.sums[at], over[at], spot.share[i]) <= word[i];
                sum[i] = at + passed;
                again[waiting] = (uint16_t)i;
                waiting += passed & (at < end);
            }
        }
        for (size_t j = 0; j < waiting; j++) {
            size_t i = again[j];
            while (sum[i] < row[i] + last &&
                   mixed(rows.sums[sum[i]], over[sum[i]], spot.share[i]) <= word[i])
                sum[i]++;
        }
        for (size_t i = 0; i < count; i++) {
            uint32_t found = sum[i] - row[i];
            out[first + i] = rows.places[found < last ? found : last];
        }
    }
    return strange ? NOT_DONE : DONE;
}

VERSIONS(enum outcome, row_places,
         (struct rows rows, struct grid grid, const double *readings, const uint64_t *words,
          int64_t *out, size_t n),
         rows_of, (rows, grid, readings, words, out, n))
