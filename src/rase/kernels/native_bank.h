/* What a bank of filters knows and is given; see native_bank.c. */

#ifndef RASE_NATIVE_BANK_H
#define RASE_NATIVE_BANK_H

#include "native_filters.h"

#define FAMILIES 3
#define MOST_BANK 256 /* models of all families */
#define SCALES 5
#define GROUPS 3
#define PARTS 6   /* irregular parts: rase.series.models.IRREGULAR */
#define SPREADS 40
#define STEPS 17

/* The numbers of rase.series.bank, models and posterior, which are written down there alone. */
struct numbers {
    /* rase.series.bank */
    double low, width, memory_s, members_s;
    double spreads_needed, above, below, least_above, hidden, hidden_count;
    double most_spread, excess, seen;
    double spreads_log[SPREADS], spreads_squared[SPREADS], irregular_squared[PARTS];
    /* rase.series.models */
    double kept_weight, next_level, next_irregular, single[3], lasting[3];
    /* rase.series.posterior */
    double scales_kept, jump_chance, jump_size, away_kept, away_odds, outlier, least_weight;
    double furthest, least_share, temperature, first_share, normal;
    double experts[3], scales[SCALES], scales_prior[SCALES], steps[STEPS];
};

/* One number for each model. */
struct models {
    const double *movement_log, *fast_prior;
    const int64_t *parts;
    size_t count; /* with those of a cycle, known or not */
};

/* What is known but for the filters: FilterBank and Experts of one run. */
struct known {
    double way, spread[3], most, scales[PARTS][SCALES], away[3];
    double precision, rounds, sum, shares[3];
};

/* A round before and after it was taken in. */
struct round {
    double passed_s, states_passed_s, cycle_passed_s; /* NaN before the first */
    double value, variance, n, outliers, spread;      /* NaN where no spread was learnt */
};
struct said {
    double mean, variance, degrees, sampling, evidence, wider, shares[3];
};

struct bank {
    struct family families[FAMILIES];
    size_t in_use; /* families: two while no cycle is known */
    const struct numbers *numbers;
    struct models models;
    const double *quantiles;
    size_t quantile_count;
    struct known *known;
    double *weights, *evidence;
};

/* Say whether no model and no shape leads out of an array. */
int are_models_right(const struct bank *bank);
/* The last: five numbers for each model and round, and the gains; or NULL. */
enum outcome follow_rounds(struct bank *bank, const struct round *rounds,
                           const double *const *seen, size_t count, struct said *said,
                           double *details);

#endif
