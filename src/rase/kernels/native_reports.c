/* Reports of clamped two-sided geometric noise, and what an estimator sums up of them.
 *
 * Compiled without contraction of a * b + c, so that every float is the one NumPy computes. */

#include <string.h>

#include "native.h"

/* Readings are worked off in blocks that stay in the nearest cache, each in three sweeps of which
 * the first and the last run in vector registers. */
#define BLOCK 256

ALWAYS_INLINE enum outcome reports_of(struct table table, struct grid grid, const double *readings,
                                      const uint64_t *words, double *out, size_t n)
{
    const double most = (double)grid.steps;
    const uint64_t infinite = UINT64_C(0x7ff) << 52;
    uint64_t strange = 0;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        const double *reading = readings + first;
        const uint64_t *word = words + 2 * first;
        int32_t codes[BLOCK];
        /* Round each reading up or down at random, so that the expectation stays. */
        for (size_t i = 0; i < count; i++) {
            uint64_t bits;
            memcpy(&bits, reading + i, sizeof bits);
            strange |= (uint64_t)((bits & infinite) == infinite);
            double exact = (reading[i] - grid.low) / grid.step;
            exact = exact > 0.0 ? exact : 0.0; /* NaN goes to 0 */
            exact = exact < most ? exact : most;
            int32_t index = (int32_t)exact;
            double share = exact - (double)index;
            /* 52 bits of the word as a float of [1, 2), less 1. */
            uint64_t coin_bits = word[2 * i] >> 12 | UINT64_C(0x3ff) << 52;
            double coin;
            memcpy(&coin, &coin_bits, sizeof coin);
            codes[i] = index + (coin - 1.0 < share) - (int32_t)grid.steps;
        }
        int32_t noise[BLOCK];
        uint32_t cells = 0;
        for (size_t i = 0; i < count; i++)
            noise[i] = (int32_t)drawn_once(table, word[2 * i + 1], &cells);
        for (size_t i = 0; cells & CROWDED && i < count; i++)
            if (table.guide[word[2 * i + 1] >> table.shift] & CROWDED)
                noise[i] = (int32_t)drawn(table, word[2 * i + 1]);
        for (size_t i = 0; i < count; i++) {
            int32_t code = codes[i] + noise[i];
            code = code > 0 ? code : 0;
            code = code < (int32_t)grid.steps ? code : (int32_t)grid.steps;
            out[first + i] = grid.low + grid.step * (double)code;
        }
    }
    return strange ? NOT_DONE : DONE;
}

VERSIONS(enum outcome, clamped_reports,
         (struct table table, struct grid grid, const double *readings, const uint64_t *words,
          double *out, size_t n),
         reports_of, (table, grid, readings, words, out, n))

enum outcome clamped_sums(struct grid grid, const double *reports, size_t rounds, size_t n,
                          int64_t *sums, int64_t *lows, int64_t *highs)
{
    const double most = (double)grid.steps;
    int strange = 0;
    for (size_t round = 0; round < rounds; round++) {
        int64_t sum = 0, low = 0, high = 0;
        for (size_t i = 0; i < n; i++) {
            double exact = (reports[round * n + i] - grid.low) / grid.step;
            int is_inside = exact > -0.01 && exact < most + 0.01; /* false for NaN */
            int64_t code = (int64_t)((is_inside ? exact : 0.0) + 0.5);
            double off = exact - (double)code;
            strange |= !is_inside | !(off < 0.01) | !(off > -0.01);
            sum += code;
            low += code == 0;
            high += code == grid.steps;
        }
        sums[round] = sum;
        lows[round] = low;
        highs[round] = high;
    }
    return strange ? NOT_DONE : DONE;
}
