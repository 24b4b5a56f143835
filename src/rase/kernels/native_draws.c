/* Whole numbers from words: below a bound, and from tables of integer weights. */

#include "native.h"

enum outcome integers_below(const uint64_t *words, const int64_t *bounds, int64_t *out, size_t n)
{
    int again = 0;
    for (size_t i = 0; i < n; i++) {
        /* A bound of 0 would divide by zero; the NumPy side answers for it. */
        if (bounds[i] < 1 || bounds[i] > ((int64_t)1 << 32))
            return NOT_DONE;
        out[i] = (int64_t)below(words[i], (uint64_t)bounds[i], &again);
    }
    return again ? NOT_DONE : DONE;
}

void draw_indices(struct table table, const uint64_t *words, int64_t *out, size_t n)
{
    const uint32_t last = (uint32_t)table.count;
    for (size_t first = 0; first < n; first += BLOCK) {
        uint32_t block[BLOCK];
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        draw_block(table, words + first, block, count, NULL);
        for (size_t i = 0; i < count; i++)
            out[first + i] = block[i] < last ? block[i] : last;
    }
}

/* Add weight times a draw to each value. A word that may equal a boundary, or lies beyond an
 * endless table, leaves the draw open: NumPy then settles it, with further words if need be. */
ALWAYS_INLINE enum outcome settled_of(struct table table, const uint64_t *words, uint64_t weight,
                                      uint64_t *values, size_t n, int is_endless)
{
    const uint32_t last = (uint32_t)table.count, open = is_endless ? last : UINT32_MAX;
    uint64_t is_open = 0;
    for (size_t first = 0; first < n; first += BLOCK) {
        uint32_t block[BLOCK];
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        draw_block(table, words + first, block, count, &is_open);
        for (size_t i = 0; i < count; i++) {
            uint32_t drawn = block[i] < last ? block[i] : last;
            is_open |= (uint64_t)(drawn == open);
            values[first + i] += weight * drawn;
        }
    }
    return is_open ? NOT_DONE : DONE;
}

VERSIONS(enum outcome, add_settled,
         (struct table table, const uint64_t *words, uint64_t weight, uint64_t *values, size_t n,
          int is_endless),
         settled_of, (table, words, weight, values, n, is_endless))
