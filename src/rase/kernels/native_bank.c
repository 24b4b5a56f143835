/* A bank of filters taken through rounds in one call: rase.series.bank and rase.series.posterior.
 *
 * Their NumPy is the reference, and explains each step; here it stands for one run. */

#include <stdlib.h>

#include "native_bank.h"

/* Rows of numbers of models end in some that count nothing, so that sums have whole lanes. */
#define EVENTS 3 /* a jump, an outlier, a jump of before */
#define COMPONENTS (SCALES * GROUPS + EVENTS + 2)
#define PADDED_COMPONENTS 24

struct row {
    double x[MOST_BANK + LANES];
};

/* Numbers of one round, and what is kept from one to the next to save work. */
struct work {
    struct row means, movements, surprises, totals, squares, odds, core, plausible, chances;
    struct row chosen_weights, chosen_means, chosen_movements, chosen_surprises;
    struct row scaled[SCALES], found[SCALES];
    int chosen_parts[MOST_BANK + LANES];
    double own_movement[SPREADS * PARTS], own_n;
    double spread_chances[SPREADS];
    double weights[PADDED_COMPONENTS], component_means[PADDED_COMPONENTS],
        component_variances[PADDED_COMPONENTS];
    double centre, apart, surprise, top;
};

int are_models_right(const struct bank *bank)
{
    const struct numbers *numbers = bank->numbers;
    double single = 1, lasting = 1;
    for (size_t i = 0; i < 3; i++) {
        if (!(numbers->single[i] >= 1 && numbers->lasting[i] >= 1))
            return 0;
        single *= numbers->single[i];
        lasting *= numbers->lasting[i];
    }
    for (size_t k = 0; k < bank->models.count; k++)
        if (bank->models.parts[k] < 0 || bank->models.parts[k] >= PARTS)
            return 0;
    return single + lasting <= (double)bank->models.count;
}

ALWAYS_INLINE double sum_of(const double *x, size_t count)
{
    double lanes[LANES] = {0};
    for (size_t i = 0; i < count; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lanes[j] += x[i + j];
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
           ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

ALWAYS_INLINE double product_sum(const double *x, const double *y, size_t count)
{
    double lanes[LANES] = {0};
    for (size_t i = 0; i < count; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lanes[j] += x[i + j] * y[i + j];
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
           ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

ALWAYS_INLINE void divide(double *x, double by, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] /= by;
}

static double within(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double at_most_log(double ratio_log, double excess)
{
    double over = within(ratio_log, 0.0, 10.0 * excess) / excess;
    return -0.5 * over * over;
}

/* Neighbours exchange weight: `outer` times `length` entries that lie `stride` apart. */
static void exchange(double *weights, size_t outer, size_t length, size_t stride, double share)
{
    for (size_t o = 0; o < outer; o++)
        for (size_t inner = 0; inner < stride; inner++) {
            double *line = weights + o * length * stride + inner, flow_before = 0;
            for (size_t i = 0; i + 1 < length; i++) {
                double flow = share / 2 * (line[(i + 1) * stride] - line[i * stride]);
                line[i * stride] += flow - flow_before;
                flow_before = flow;
            }
            line[(length - 1) * stride] -= flow_before;
        }
}

/* rase.series.models.drift_weights. */
static void drift_weights(const struct bank *bank)
{
    const struct numbers *numbers = bank->numbers;
    double *weights = bank->weights;
    for (size_t k = 0; k < bank->models.count; k++)
        weights[k] *= numbers->kept_weight;
    size_t single[3], lasting[3];
    for (size_t i = 0; i < 3; i++) {
        single[i] = (size_t)numbers->single[i];
        lasting[i] = (size_t)numbers->lasting[i];
    }
    double *second = weights + single[0] * single[1] * single[2];
    exchange(weights, 1, single[0], single[1] * single[2], numbers->next_level);
    exchange(second, 1, lasting[0], lasting[1] * lasting[2], numbers->next_level);
    exchange(weights, single[0], single[1], single[2], numbers->next_irregular);
    for (size_t k = 0; k < bank->models.count; k++)
        weights[k] += bank->models.fast_prior[k];
}

/* How likely each spread of readings is: FilterBank._spread_chances. */
ALWAYS_INLINE void find_spreads(const struct bank *bank, double *chances)
{
    const struct numbers *numbers = bank->numbers;
    const struct known *known = bank->known;
    double most = log_of(numbers->most_spread / numbers->width * known->way);
    double width = numbers->width, seen = 0, variance = 0;
    int is_learnt = known->spread[0] >= numbers->spreads_needed;
    if (is_learnt) {
        double count = known->spread[0];
        seen = known->spread[1] / count;
        variance = known->spread[2] / count - seen * seen;
        variance = (variance > 0 ? variance : 0) / (count - 1);
    }
    double top = -INFINITY;
    for (size_t i = 0; i < SPREADS; i++) {
        chances[i] = at_most_log(numbers->spreads_log[i] - most, numbers->excess);
        if (is_learnt) {
            double own = numbers->spreads_squared[i] * (width * width), off = seen - own;
            chances[i] -= 0.5 * (off * off) / (variance + (0.1 * own) * (0.1 * own));
        }
        top = chances[i] > top ? chances[i] : top;
    }
    for (size_t i = 0; i < SPREADS; i++)
        chances[i] = exp_of(chances[i] - top);
    divide(chances, sum_of(chances, SPREADS), SPREADS);
}

/* rase.series.bank._own_movement. */
ALWAYS_INLINE void find_own_movement(const struct numbers *numbers, double n, double *own)
{
    double parts[PARTS];
    for (size_t p = 0; p < PARTS; p++)
        parts[p] = log_of(numbers->irregular_squared[p]);
    for (size_t i = 0; i < SPREADS; i++) {
        double apart = log_of(numbers->spreads_squared[i] / n);
        for (size_t p = 0; p < PARTS; p++) {
            double away = parts[p] - apart, over = away / (away > 0 ? numbers->above : numbers->below);
            double odds = exp_of(-0.5 * (over * over));
            if (away > 0 && odds < numbers->least_above)
                odds = numbers->least_above;
            own[i * PARTS + p] = odds + 1e-300;
        }
    }
}

/* FilterBank._of_members. */
static double of_members(const struct bank *bank, double n, const double *chances)
{
    struct known *known = bank->known;
    const struct numbers *numbers = bank->numbers;
    known->most = n > known->most ? n : known->most;
    if (n == known->most)
        return 0.0;
    double spread = product_sum(chances, numbers->spreads_squared, SPREADS);
    return numbers->width * numbers->width * spread * (1 / n - 1 / known->most);
}

/* What models count before the round, by what is plausible; and with parts that noise hides. */
ALWAYS_INLINE void find_core(const struct bank *bank, struct work *work, size_t count,
                             size_t padded, double n, double variance)
{
    const struct numbers *numbers = bank->numbers;
    double width = numbers->width, way = log_of(bank->known->way), likely[PARTS] = {0};
    if (n != work->own_n)
        find_own_movement(numbers, n, work->own_movement);
    work->own_n = n;
    for (size_t i = 0; i < SPREADS; i++)
        for (size_t p = 0; p < PARTS; p++)
            likely[p] += work->spread_chances[i] * work->own_movement[i * PARTS + p];
    size_t hidden = 0;
    while (hidden < PARTS &&
           numbers->irregular_squared[hidden] < numbers->hidden * variance / (width * width))
        hidden++;
    double factor = (double)hidden > numbers->hidden_count ? numbers->hidden_count / (double)hidden : 1;
    double *core = work->core.x, *plausible = work->plausible.x;
    for (size_t k = 0; k < padded; k++)
        core[k] = 0;
    for (size_t k = 0; k < count; k++) {
        double over = at_most_log(bank->models.movement_log[k] - way, numbers->excess);
        core[k] = bank->weights[k] * (over < 0 ? exp_of(over) : 1.0);
        core[k] *= likely[bank->models.parts[k]];
    }
    divide(core, sum_of(core, padded), count);
    for (size_t k = 0; k < padded; k++)
        plausible[k] = core[k];
    for (size_t k = 0; k < count; k++)
        plausible[k] *= (size_t)bank->models.parts[k] < hidden ? factor : 1;
    divide(plausible, sum_of(plausible, padded), count);
}

/* rase.series.posterior.Posterior; its components are those of models, in their first places. */
ALWAYS_INLINE void find_posterior(const struct bank *bank, struct work *work, size_t count,
                                  double variance)
{
    const struct numbers *numbers = bank->numbers;
    double *weights = work->chosen_weights.x, *means = work->chosen_means.x;
    double *movements = work->chosen_movements.x, *surprises = work->chosen_surprises.x;
    size_t some = 0;
    for (size_t k = 0; k < count; k++) {
        weights[some] = work->plausible.x[k];
        means[some] = work->means.x[k];
        movements[some] = work->movements.x[k];
        surprises[some] = work->surprises.x[k];
        work->chosen_parts[some] = (int)bank->models.parts[k];
        some += work->plausible.x[k] > numbers->least_weight;
    }
    size_t padded = (some + LANES - 1) / LANES * LANES;
    for (size_t k = some; k < padded; k++) {
        weights[k] = means[k] = surprises[k] = 0;
        movements[k] = variance;
        work->chosen_parts[k] = 0;
    }
    double top = -INFINITY, sums[PARTS][SCALES] = {{0}}, before[PARTS][SCALES];
    for (size_t s = 0; s < SCALES; s++) {
        double *odds = work->scaled[s].x, scale = numbers->scales[s];
        for (size_t k = 0; k < padded; k++) {
            double total = scale * movements[k] + variance;
            odds[k] = -0.5 * (log_of(total) + surprises[k] * surprises[k] / total);
        }
        for (size_t k = 0; k < some; k++)
            top = odds[k] > top ? odds[k] : top;
    }
    work->top = top;
    for (size_t s = 0; s < SCALES; s++) {
        double *chances = work->scaled[s].x;
        for (size_t k = 0; k < padded; k++)
            chances[k] = weights[k] * exp_of(chances[k] - top);
        for (size_t k = 0; k < some; k++)
            sums[work->chosen_parts[k]][s] += chances[k];
    }
    for (size_t p = 0; p < PARTS; p++) {
        double *scales = bank->known->scales[p], most = 0, whole = 0, all = 0;
        for (size_t s = 0; s < SCALES; s++)
            most = sums[p][s] > most ? sums[p][s] : most;
        for (size_t s = 0; s < SCALES; s++)
            whole += sums[p][s] += 1e-9 * most + 1e-300;
        for (size_t s = 0; s < SCALES; s++) {
            before[p][s] = scales[s];
            scales[s] = pow(scales[s], numbers->scales_kept) *
                        pow(numbers->scales_prior[s], 1 - numbers->scales_kept) * (sums[p][s] / whole);
            all += scales[s];
        }
        divide(scales, all, SCALES);
    }
    for (size_t s = 0; s < SCALES; s++) {
        double *chances = work->scaled[s].x, *found = work->found[s].x, scale = numbers->scales[s];
        double group[3][GROUPS] = {{0}};
        double *left = work->odds.x; /* free until the weights of the bank are learnt */
        for (size_t k = 0; k < padded; k++) {
            double scaled = scale * movements[k], follows = scaled / (scaled + variance);
            chances[k] *= before[work->chosen_parts[k]][s];
            found[k] = means[k] + follows * surprises[k];
            left[k] = follows * variance;
        }
        for (size_t k = 0; k < some; k++) {
            int g = work->chosen_parts[k] / 2;
            group[0][g] += chances[k];
            group[1][g] += chances[k] * found[k];
            group[2][g] += chances[k] * (left[k] + found[k] * found[k]);
        }
        for (size_t g = 0; g < GROUPS; g++) {
            size_t place = s * GROUPS + g;
            double weight = group[0][g] + 1e-300, mean = group[1][g] / weight;
            double own = group[2][g] / weight - mean * mean;
            work->weights[place] = weight;
            work->component_means[place] = mean;
            work->component_variances[place] = own > 1e-9 * variance ? own : 1e-9 * variance;
        }
    }
    work->centre = product_sum(weights, means, padded);
    double *apart = work->odds.x;
    for (size_t k = 0; k < padded; k++) {
        double off = means[k] - work->centre;
        apart[k] = movements[k] + off * off;
    }
    work->apart = product_sum(weights, apart, padded);
    work->surprise = product_sum(weights, surprises, padded);
}

/* Posterior.add_jumps_and_outliers. */
static void add_events(const struct numbers *numbers, struct work *work, double variance,
                       double outliers)
{
    double jump = (numbers->jump_size * numbers->width) * (numbers->jump_size * numbers->width);
    for (size_t event = 0; event < 2; event++) {
        size_t place = SCALES * GROUPS + event;
        double movement = event ? work->apart : jump, noise = (event ? numbers->outlier : 1.0) * variance;
        double total = movement + noise, follows = movement / total;
        double odds = -0.5 * (log(total) + work->surprise * work->surprise / total) - work->top;
        work->weights[place] = (event ? outliers : numbers->jump_chance) * exp(odds < 700.0 ? odds : 700.0);
        work->component_means[place] = work->centre + follows * work->surprise;
        work->component_variances[place] = follows * noise;
    }
}

/* Posterior.add_away, of a bank whose models together found the round this likely. */
static void add_away(const struct bank *bank, struct work *work, const struct round *round,
                     double likely, double *mean, double *apart)
{
    const struct numbers *numbers = bank->numbers;
    double *away = bank->known->away, *weights = work->weights;
    size_t jump = SCALES * GROUPS, place = jump + EVENTS - 1;
    double staying = numbers->away_kept * away[0], total = away[2] + round->variance;
    double surprise = round->value - away[1], follows = away[2] / total, models = 0;
    double odds = -0.5 * (log(total) + surprise * surprise / total) - work->top;
    double stays = staying * exp(odds < 700.0 ? odds : 700.0) + 1e-300;
    double found = away[1] + follows * surprise, left = follows * round->variance;
    for (size_t i = 0; i < jump; i++)
        models += weights[i] *= 1 - staying;
    double both = weights[jump] + stays, since = stays / both;
    double centre = (1 - since) * work->component_means[jump] + since * found;
    double first = work->component_means[jump] - centre, last = found - centre;
    double square = (1 - since) * (work->component_variances[jump] + first * first) +
                    since * (left + last * last);
    away[0] = both / (models + (weights[jump] + weights[jump + 1]) + stays);
    away[1] = centre;
    away[2] = square;
    weights[place] = stays;
    work->component_means[place] = found;
    work->component_variances[place] = left;
    likely -= work->top;
    double rest = (1 - staying) * exp(likely < 700.0 ? likely : 700.0);
    double share = numbers->away_odds * both / (numbers->away_odds * both + rest);
    double value = (1 - share) * *mean + share * centre;
    first = *mean - value;
    last = centre - value;
    *apart = (1 - share) * (*apart + first * first) + share * (square + last * last);
    *mean = value;
}

/* FilterBank._weigh. */
ALWAYS_INLINE double weigh(const struct bank *bank, struct work *work, size_t count, size_t padded,
                           double variance, double outliers)
{
    double *found = work->chances.x, *weights = bank->weights, top = -INFINITY;
    const double *odds = work->odds.x;
    double noise = bank->numbers->outlier * variance;
    if (outliers > 0) {
        double common = log1p(-outliers), seldom = log(outliers);
        for (size_t k = 0; k < padded; k++) {
            double wide = work->movements.x[k] + noise;
            double far = -0.5 * (log_of(wide) + work->squares.x[k] / wide) + seldom;
            double near = odds[k] + common, most = far > near ? far : near;
            double least = far > near ? near : far;
            /* log(1 + e) of e up to 1: the argument is a normal number. */
            found[k] = most + log_of(1.0 + exp_of(least - most));
        }
    } else {
        for (size_t k = 0; k < padded; k++)
            found[k] = odds[k];
    }
    for (size_t k = 0; k < count; k++)
        top = weights[k] > 0 && found[k] > top ? found[k] : top;
    for (size_t k = 0; k < count; k++) {
        double off = found[k] - top;
        found[k] = weights[k] * exp_of(off < 0 ? off : 0.0);
    }
    for (size_t k = count; k < padded; k++)
        found[k] = 0;
    double sum = sum_of(found, padded);
    for (size_t k = 0; k < count; k++)
        weights[k] = found[k] / sum;
    return top + log(sum);
}

/* rase.series.posterior.mix_models; chances stay in the work. Returns the evidence. */
ALWAYS_INLINE double mix(struct work *work, size_t count, size_t padded, double variance,
                         double *mean, double *apart)
{
    double *chances = work->chances.x, *found = work->squares.x, *left = work->totals.x;
    const double *core = work->core.x, *odds = work->odds.x;
    double top = -INFINITY;
    for (size_t k = 0; k < count; k++)
        top = core[k] > 0 && odds[k] > top ? odds[k] : top;
    for (size_t k = 0; k < padded; k++) {
        double follows = work->movements.x[k] / work->totals.x[k];
        double off = odds[k] - top;
        chances[k] = core[k] > 0 ? core[k] * exp_of(off) : 0;
        found[k] = work->means.x[k] + follows * work->surprises.x[k];
        left[k] = follows * variance;
    }
    double sum = sum_of(chances, padded);
    divide(chances, sum, padded);
    *mean = product_sum(chances, found, padded);
    for (size_t k = 0; k < padded; k++)
        left[k] += (found[k] - *mean) * (found[k] - *mean);
    *apart = product_sum(chances, left, padded);
    return top + log(sum);
}

/* Experts.weigh. */
static void weigh_experts(const struct numbers *numbers, struct known *known, double value,
                          double variance, double bank, double bank_variance, double *shares)
{
    double constant = within(known->sum / known->precision, numbers->low, numbers->low + numbers->width);
    double off[3] = {value - bank, value - constant, 0.0}, losses[3], sum = 0;
    double ratio = bank_variance / variance, follows[3] = {ratio < 1.0 ? ratio : 1.0, 0.0, 1.0};
    for (size_t i = 0; i < 3; i++)
        losses[i] = off[i] * off[i] / variance - 1 + 2 * follows[i];
    if (known->rounds == 0)
        losses[1] = losses[0];
    double least = losses[0] < losses[1] ? losses[0] : losses[1];
    least = losses[2] < least ? losses[2] : least;
    for (size_t i = 0; i < 3; i++) {
        shares[i] = known->shares[i] * exp(-(losses[i] - least) / numbers->temperature);
        sum += shares[i];
    }
    double back = 1 / (known->rounds + numbers->first_share);
    for (size_t i = 0; i < 3; i++) {
        shares[i] /= sum;
        known->shares[i] = (1 - back) * shares[i] + back * numbers->experts[i];
    }
    if (known->rounds == 0) {
        shares[0] += shares[1];
        shares[1] = 0;
    }
    known->rounds += 1;
    known->precision += 1 / variance;
    known->sum += value / variance;
}

/* The error function to 1.5e-7, as in NumPy: Abramowitz and Stegun 7.1.26. */
ALWAYS_INLINE double erf_of(double x)
{
    double far = fabs(x), t = 1 / (1 + 0.3275911 * far);
    double terms = t * (0.254829592 +
                        t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    return copysign(1 - terms * exp_of(-far * far), x);
}

/* How far to both sides of a point 95 % of the mixture lies: rase.series.posterior.reach_of. */
ALWAYS_INLINE double find_reach(const struct numbers *numbers, const struct work *work,
                                double about, double deviation)
{
    double off[PADDED_COMPONENTS], scale[PADDED_COMPONENTS], masses[STEPS];
    const double root = 1.4142135623730951;
    for (size_t i = 0; i < PADDED_COMPONENTS; i++) {
        double error = sqrt(work->component_variances[i]);
        off[i] = (work->component_means[i] - about) / error;
        scale[i] = deviation / error;
    }
    for (size_t step = 0; step < STEPS; step++) {
        double inside[PADDED_COMPONENTS];
        for (size_t i = 0; i < PADDED_COMPONENTS; i++) {
            double scaled = numbers->steps[step] * scale[i];
            inside[i] = 0.5 * (erf_of((scaled - off[i]) / root) + erf_of((scaled + off[i]) / root));
        }
        masses[step] = product_sum(work->weights, inside, PADDED_COMPONENTS);
    }
    if (!(masses[0] <= 0.95))
        return numbers->steps[0];
    if (masses[STEPS - 1] <= 0.95)
        return numbers->steps[STEPS - 1];
    size_t low = 0, high = STEPS - 1;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (masses[middle] <= 0.95)
            low = middle;
        else
            high = middle;
    }
    double slope = (numbers->steps[high] - numbers->steps[low]) / (masses[high] - masses[low]);
    return slope * (0.95 - masses[low]) + numbers->steps[low];
}

/* rase.series.posterior.as_student. */
static double as_student(const struct bank *bank, double reach, double *degrees)
{
    const double *quantiles = bank->quantiles;
    size_t low = 0, high = bank->quantile_count; /* so many reach as far: they fall */
    if (reach <= quantiles[high - 1]) {
        *degrees = INFINITY;
        return reach / bank->numbers->normal;
    }
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (quantiles[middle] >= reach)
            low = middle + 1;
        else
            high = middle;
    }
    *degrees = low < 1 ? 2.0 : (double)low + 1;
    double factor = reach / quantiles[0];
    return factor > 1.0 ? factor : 1.0;
}

/* rase.series.posterior.cut_law. */
static void cut_law(const struct numbers *numbers, double mean, double error, double about,
                    double *off, double *spread)
{
    double low = numbers->low, high = numbers->low + numbers->width;
    const double root = 1.4142135623730951, circle = 2.5066282746310002;
    mean = within(mean, low - numbers->furthest * error, high + numbers->furthest * error);
    double first = (low - mean) / error, last = (high - mean) / error;
    double inside = erf(last / root) / 2 - erf(first / root) / 2;
    double at_first = exp(-0.5 * first * first) / circle, at_last = exp(-0.5 * last * last) / circle;
    double moved = (at_first - at_last) / inside;
    double second = (first * at_first - last * at_last) / inside;
    *off = mean + moved * error - about;
    *spread = (1 + second - moved * moved) * error * error;
}

/* FilterBank._cut_to_range. */
static void cut_to_range(const struct bank *bank, double mean, double error, struct said *said)
{
    const struct numbers *numbers = bank->numbers;
    double low = numbers->low, high = low + numbers->width, off[2], spread[2];
    double likeliest = within(mean, low, high), narrow = numbers->seen * error;
    cut_law(numbers, mean, narrow, likeliest, &off[0], &spread[0]);
    cut_law(numbers, mean, error, likeliest, &off[1], &spread[1]);
    double inside = likeliest - low < high - likeliest ? likeliest - low : high - likeliest;
    double apart = off[0] * off[0] + spread[0], least = numbers->least_share * (narrow * narrow);
    apart = apart > least ? apart : least;
    inside = inside > 1e-12 * numbers->width ? inside : 1e-12 * numbers->width;
    bank->known->way = inside + sqrt(apart);
    double moved = off[0] / 2, away = off[1] - moved;
    apart = away * away + spread[1];
    least = numbers->least_share * error * error;
    said->mean = likeliest + moved;
    said->variance = apart > least ? apart : least;
}

/* FilterBank._decide. */
ALWAYS_INLINE void decide(const struct bank *bank, struct work *work, const struct round *round,
                          double mean, double apart, struct said *said)
{
    const struct numbers *numbers = bank->numbers;
    struct known *known = bank->known;
    double constant = within(known->sum / known->precision, numbers->low, numbers->low + numbers->width);
    double doubt = 1 / known->precision, events = 0, *shares = said->shares;
    weigh_experts(numbers, known, round->value, round->variance, mean, apart, shares);
    size_t others = SCALES * GROUPS + EVENTS;
    for (size_t i = 0; i < others; i++)
        events += work->weights[i];
    for (size_t i = 0; i < others; i++)
        work->weights[i] *= shares[0] / events;
    for (size_t i = others; i < PADDED_COMPONENTS; i++) {
        work->weights[i] = i == others ? shares[1] : i == others + 1 ? shares[2] : 0.0;
        work->component_means[i] = i == others ? constant : round->value;
        work->component_variances[i] = i == others ? doubt : round->variance;
    }
    double about = shares[0] * mean + shares[1] * constant + shares[2] * round->value;
    double own = apart + (mean - about) * (mean - about), square = 0;
    for (size_t i = 0; i < COMPONENTS; i++) {
        double off = work->component_means[i] - about;
        square += work->weights[i] * (work->component_variances[i] + off * off);
    }
    double wide = sqrt(square);
    double factor = as_student(bank, find_reach(numbers, work, about, wide), &said->degrees);
    cut_to_range(bank, about, sqrt(own), said);
    double wider = wide * wide / own;
    said->wider = factor * factor * (wider > 1.0 ? wider : 1.0);
    said->variance *= said->wider;
}

/* FilterBank.step and learn_spread, of the first of so many rounds. */
ALWAYS_INLINE void follow(struct bank *bank, struct work *work, const struct round *round,
                          const double *const *seen, size_t rounds, struct said *said,
                          double *gains)
{
    struct known *known = bank->known;
    double *own_gains[FAMILIES] = {0}, means[MOST_MODELS], variances[MOST_MODELS];
    if (round->passed_s > 0) {
        for (size_t f = 0; f < 2; f++)
            advance(&bank->families[f], round->states_passed_s);
        double faded = exp(-round->passed_s / bank->numbers->memory_s);
        for (size_t i = 0; i < 3; i++)
            known->spread[i] *= faded;
        known->most *= exp(-round->passed_s / bank->numbers->members_s);
        drift_weights(bank);
    }
    if (bank->in_use > 2)
        advance(&bank->families[2], round->cycle_passed_s);
    find_spreads(bank, work->spread_chances);
    said->sampling = of_members(bank, round->n, work->spread_chances);
    size_t count = 0;
    for (size_t f = 0; f < bank->in_use; f++) {
        struct family *family = &bank->families[f];
        own_gains[f] = gains;
        gains += family->count * family->size;
        predict(family, seen[f], rounds, means, variances, own_gains[f]);
        for (size_t k = 0; k < family->count; k++) {
            work->means.x[count + k] = means[k];
            work->movements.x[count + k] = variances[k] + said->sampling;
            work->totals.x[count + k] = work->movements.x[count + k] + round->variance;
            work->surprises.x[count + k] = round->value - means[k];
        }
        count += family->count;
    }
    size_t padded = (count + LANES - 1) / LANES * LANES;
    for (size_t k = count; k < padded; k++) {
        work->means.x[k] = work->surprises.x[k] = 0;
        work->movements.x[k] = work->totals.x[k] = 1;
    }
    find_core(bank, work, count, padded, round->n, round->variance);
    find_posterior(bank, work, count, round->variance);
    add_events(bank->numbers, work, round->variance, round->outliers);
    for (size_t k = 0; k < padded; k++) {
        double square = work->surprises.x[k] * work->surprises.x[k], total = work->totals.x[k];
        work->squares.x[k] = square;
        work->odds.x[k] = -0.5 * (log_of(total) + square / total);
    }
    for (size_t k = 0; k < bank->families[0].count + bank->families[1].count; k++)
        bank->evidence[k] += work->odds.x[k];
    said->evidence = weigh(bank, work, count, padded, round->variance, round->outliers);
    size_t first = 0;
    for (size_t f = 0; f < bank->in_use; f++) {
        struct family *family = &bank->families[f];
        double *totals = work->totals.x + first;
        /* Filters of a cycle know nothing of who reports. */
        if (f == 2)
            for (size_t k = 0; k < family->count; k++)
                variances[k] += round->variance;
        take(family, own_gains[f], work->surprises.x + first, f == 2 ? variances : totals);
        first += family->count;
    }
}

ALWAYS_INLINE enum outcome follow_rounds_body(struct bank *bank, const struct round *rounds,
                                              const double *const *seen, size_t count,
                                              struct said *said, double *details)
{
    size_t gains = 0, models = 0;
    for (size_t f = 0; f < bank->in_use; f++) {
        gains += bank->families[f].count * bank->families[f].size;
        models += bank->families[f].count;
    }
    struct work *work = malloc(sizeof *work + (1 + TOGETHER) * gains * sizeof(double));
    if (!work)
        return NO_MEMORY;
    memset(work, 0, sizeof *work);
    double *ahead = (double *)(work + 1) + gains;
    for (size_t f = 0; f < bank->in_use; f++) {
        bank->families[f].ahead = ahead;
        bank->families[f].ready = bank->families[f].used = 0;
        ahead += AHEAD(&bank->families[f]);
    }
    size_t padded = (models + LANES - 1) / LANES * LANES;
    for (size_t r = 0; r < count; r++) {
        const double *own[FAMILIES];
        double *room = (double *)(work + 1), mean, apart;
        for (size_t f = 0; f < bank->in_use; f++)
            own[f] = seen[f] + r * bank->families[f].size;
        if (details)
            room = details + r * (5 * models + gains) + 5 * models;
        follow(bank, work, &rounds[r], own, count - r, &said[r], room);
        if (details) {
            double *place = room - 5 * models;
            memcpy(place, work->means.x, models * sizeof(double));
            memcpy(place + models, work->movements.x, models * sizeof(double));
            memcpy(place + 2 * models, work->totals.x, models * sizeof(double));
            memcpy(place + 3 * models, work->surprises.x, models * sizeof(double));
        }
        double likely = mix(work, models, padded, rounds[r].variance, &mean, &apart);
        add_away(bank, work, &rounds[r], likely, &mean, &apart);
        if (details)
            memcpy(room - models, work->chances.x, models * sizeof(double));
        decide(bank, work, &rounds[r], mean, apart, &said[r]);
        double spread = rounds[r].spread;
        if (spread == spread) {
            bank->known->spread[0] += 1;
            bank->known->spread[1] += spread;
            bank->known->spread[2] += spread * spread;
        }
    }
    free(work);
    return DONE;
}

VERSIONS(enum outcome, follow_rounds,
         (struct bank * bank, const struct round *rounds, const double *const *seen, size_t count,
          struct said *said, double *details),
         follow_rounds_body, (bank, rounds, seen, count, said, details))
