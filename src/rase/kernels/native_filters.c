/* Models of one shape that go through a record forward and backward: rase.series.smoother, cycle. */

#include <stdlib.h>

#include "native_filters.h"

/* A round is: how much time passed before it (below 0 for none), its mean, its variance by noise,
 * and that by who reported. */
#define ROUND 4

/* Take rounds in; say for each round and model how far it was off and the variance of that, and
 * where asked the covariance of the state with the mean. */
ALWAYS_INLINE enum outcome filter_rounds_body(struct family *family, const double *rounds,
                                              const double *seen, size_t count,
                                              struct filtered out)
{
    size_t models = family->count, size = family->size;
    double *room = malloc((2 * models + models * size + AHEAD(family)) * sizeof(double));
    if (!room)
        return NO_MEMORY;
    family->ahead = room + 2 * models + models * size;
    family->ready = family->used = 0;
    double *means = room, *variances = room + models;
    for (size_t r = 0; r < count; r++) {
        const double *round = rounds + r * ROUND;
        double *gains = out.gains ? out.gains + r * models * size : room + 2 * models;
        double *surprises = out.surprises + r * models, *totals = out.totals + r * models;
        if (round[0] >= 0)
            advance(family, round[0]);
        predict(family, seen + r * size, count - r, means, variances, gains);
        for (size_t k = 0; k < models; k++) {
            totals[k] = variances[k] + round[3] + round[2];
            surprises[k] = round[1] - means[k];
        }
        take(family, gains, surprises, totals);
    }
    free(room);
    return DONE;
}

VERSIONS(enum outcome, filter_rounds,
         (struct family * family, const double *rounds, const double *seen, size_t count,
          struct filtered out),
         filter_rounds_body, (family, rounds, seen, count, out))

/* One model's round backward: rase.series.smoother.LookingBack. */
ALWAYS_INLINE void back_sized(const struct passed *passed, size_t r, size_t k, double *vector,
                              double *matrix, double *u, double *d, const size_t size)
{
    const double *seen = passed->seen + r * size;
    double total = passed->totals[r * passed->models + k];
    const double *gains = passed->gains + (r * passed->models + k) * size;
    double follows[MOST_STATES], along[MOST_STATES] = {0};
    for (size_t i = 0; i < size; i++)
        follows[i] = gains[i] / total;
    /* The matrix is symmetric. */
    for (size_t j = 0; j < size; j++)
        for (size_t i = 0; i < size; i++)
            along[i] += matrix[j * size + i] * follows[j];
    double squares = 0, products = 0;
    for (size_t i = 0; i < size; i++) {
        squares += follows[i] * along[i];
        products += follows[i] * vector[i];
    }
    *d = 1 / total + squares;
    *u = passed->surprises[r * passed->models + k] / total - products;
    for (size_t i = 0; i < size; i++)
        vector[i] += *u * seen[i];
    for (size_t i = 0; i < size; i++) {
        double at = seen[i], back = along[i];
        for (size_t j = 0; j < size; j++)
            matrix[i * size + j] -= (back * seen[j] + at * along[j]) - *d * (at * seen[j]);
    }
}

/* Go through a block of rounds backward; means and variances are given a model a row. */
ALWAYS_INLINE enum outcome look_back_body(struct passed passed, double *vector, double *matrix,
                                          double *means, double *variances)
{
    size_t size = passed.size, count = passed.count;
    for (size_t k = 0; k < passed.models; k++) {
        double *own = vector + k * size, *square = matrix + k * size * size;
        double kept_s = -1.0, left = 1.0;
        for (size_t r = count; r-- > 0;) {
            const double *round = passed.rounds + r * ROUND;
            double u, d, noise = round[2];
#define BACK(size) back_sized(&passed, r, k, own, square, &u, &d, size)
            SIZED(size, BACK, size);
#undef BACK
            double variance = noise - noise * noise * d, least = 1e-9 * noise;
            means[k * count + r] = round[1] - noise * u;
            variances[k * count + r] = variance > least ? variance : least;
            if (round[0] >= 0) {
                if (round[0] != kept_s) {
                    kept_s = round[0];
                    left = exp(-kept_s / passed.lasting_s[k]);
                }
                own[1] *= left;
                for (size_t i = 0; i < size; i++)
                    square[size + i] *= left;
                for (size_t i = 0; i < size; i++)
                    square[i * size + 1] *= left;
            }
        }
    }
    return DONE;
}

VERSIONS(enum outcome, look_back,
         (struct passed passed, double *vector, double *matrix, double *means, double *variances),
         look_back_body, (passed, vector, matrix, means, variances))
