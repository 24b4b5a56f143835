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

#define BLOCK 256

/* Draw a block of indices. */
ALWAYS_INLINE void draw_block(struct table table, const uint64_t *words, uint32_t *out, size_t n)
{
    uint32_t cells = 0;
    for (size_t i = 0; i < n; i++)
        out[i] = drawn_once(table, words[i], &cells);
    for (size_t i = 0; cells & CROWDED && i < n; i++)
        if (table.guide[words[i] >> table.shift] & CROWDED)
            out[i] = drawn(table, words[i]);
    for (size_t i = 0; i < n; i++)
        out[i] = out[i] < (uint32_t)table.count ? out[i] : (uint32_t)table.count;
}

void draw_indices(struct table table, const uint64_t *words, int64_t *out, size_t n)
{
    for (size_t first = 0; first < n; first += BLOCK) {
        uint32_t block[BLOCK];
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        draw_block(table, words + first, block, count);
        for (size_t i = 0; i < count; i++)
            out[first + i] = block[i];
    }
}

/* Add weight times a draw to each value. A word that equals a boundary, or lies beyond an endless
 * table, leaves the draw open: NumPy then settles it with further words. */
enum outcome add_settled(struct table table, const uint64_t *words, uint64_t weight,
                         uint64_t *values, size_t n, int is_endless)
{
    int is_open = 0;
    for (size_t first = 0; first < n; first += BLOCK) {
        uint32_t block[BLOCK];
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        draw_block(table, words + first, block, count);
        for (size_t i = 0; i < count; i++) {
            is_open |= block[i] && table.bounds[block[i]] == words[first + i];
            is_open |= is_endless && block[i] == table.count;
            values[first + i] += weight * block[i];
        }
    }
    return is_open ? NOT_DONE : DONE;
}
