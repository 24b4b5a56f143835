/* The part of rase.kernels._native that follows rounds: takes arrays as buffers, checks their sizes,
 * and works without the interpreter's lock. */

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>

#include "native_bank.h"
#include "native_series.h"

#define FAMILY_VIEWS 8
#define MODEL_VIEWS 5
#define SIZES_WRONG "arrays must be aligned and of sizes that fit together."

/* Buffers that were taken, to be released together. */
struct taken {
    Py_buffer views[40];
    int count;
};

static PyObject *finish(struct taken *taken, enum outcome outcome)
{
    for (int i = 0; i < taken->count; i++)
        PyBuffer_Release(&taken->views[i]);
    return outcome == NO_MEMORY ? PyErr_NoMemory() : PyBool_FromLong(outcome == DONE);
}

static PyObject *refuse(struct taken *taken)
{
    for (int i = 0; i < taken->count; i++)
        PyBuffer_Release(&taken->views[i]);
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, SIZES_WRONG);
    return NULL;
}

/* Take a buffer of 8-byte entries; its first, and how many there are. NULL if it is none. */
static void *entries_of(struct taken *taken, PyObject *array, int is_written, size_t *count)
{
    Py_buffer *view = &taken->views[taken->count];
    if (taken->count == 40 ||
        PyObject_GetBuffer(array, view, is_written ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0)
        return NULL;
    taken->count++;
    if (view->len % 8 || (uintptr_t)view->buf % 8)
        return NULL;
    *count = (size_t)view->len / 8;
    return view->buf;
}

/* Take the arrays of a family and how many rounds are pending; its room for what is left is made. */
static int take_family(struct taken *taken, PyObject *tuple, struct family *family)
{
    size_t counts[FAMILY_VIEWS] = {0};
    void *arrays[FAMILY_VIEWS];
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != FAMILY_VIEWS + 1)
        return 0;
    for (int i = 0; i < FAMILY_VIEWS; i++) {
        arrays[i] = entries_of(taken, PyTuple_GetItem(tuple, i), i < 5, &counts[i]);
        if (!arrays[i])
            return 0;
    }
    Py_ssize_t pending = PyLong_AsSsize_t(PyTuple_GetItem(tuple, FAMILY_VIEWS));
    size_t count = counts[2], size = count ? counts[0] / count : 0;
    if (PyErr_Occurred() || pending < 0 || pending >= TOGETHER || !count || count > MOST_MODELS ||
        size < LEAST_STATES || size > MOST_STATES || counts[0] != count * size ||
        counts[1] != count * size * size || counts[3] != count * size ||
        counts[4] != TOGETHER * count * size || counts[5] != count || counts[6] != count * size ||
        counts[7] != count)
        return 0;
    *family = (struct family){arrays[0], arrays[1], arrays[2], arrays[3], arrays[4],
                              arrays[5], arrays[6], arrays[7], count,     size,
                              (size_t)pending, -1.0, PyMem_Malloc(count * sizeof(double))};
    return family->kept != NULL;
}

PyObject *py_filter_rounds(PyObject *self, PyObject *args)
{
    PyObject *tuple, *arrays[5];
    struct taken taken = {.count = 0};
    struct family family = {.kept = NULL};
    struct filtered out;
    size_t all = 0, shown = 0, counts[3] = {0};
    if (!PyArg_ParseTuple(args, "OOOOOO", &tuple, &arrays[0], &arrays[1], &arrays[2], &arrays[3],
                          &arrays[4]))
        return NULL;
    if (!take_family(&taken, tuple, &family))
        goto wrong;
    const double *rounds = entries_of(&taken, arrays[0], 0, &all);
    const double *seen = entries_of(&taken, arrays[1], 0, &shown);
    out.surprises = entries_of(&taken, arrays[2], 1, &counts[0]);
    out.totals = entries_of(&taken, arrays[3], 1, &counts[1]);
    out.gains = entries_of(&taken, arrays[4], 1, &counts[2]);
    if (!rounds || !seen || !out.surprises || !out.totals || !out.gains)
        goto wrong;
    size_t count = all / 4, each = count * family.count;
    if (all % 4 || shown != count * family.size || counts[0] != each || counts[1] != each ||
        (counts[2] && counts[2] != each * family.size))
        goto wrong;
    if (!counts[2])
        out.gains = NULL;
    enum outcome outcome;
    Py_BEGIN_ALLOW_THREADS outcome = filter_rounds(&family, rounds, seen, count, out);
    Py_END_ALLOW_THREADS
    PyMem_Free(family.kept);
    return finish(&taken, outcome);
wrong:
    PyMem_Free(family.kept);
    return refuse(&taken);
}

PyObject *py_look_back(PyObject *self, PyObject *args)
{
    PyObject *arrays[10];
    struct taken taken = {.count = 0};
    size_t n[10] = {0};
    double *own[10];
    if (!PyArg_ParseTuple(args, "OOOOOOOOOO", &arrays[0], &arrays[1], &arrays[2], &arrays[3],
                          &arrays[4], &arrays[5], &arrays[6], &arrays[7], &arrays[8], &arrays[9]))
        return NULL;
    for (int i = 0; i < 10; i++) {
        own[i] = entries_of(&taken, arrays[i], i > 5, &n[i]);
        if (!own[i])
            return refuse(&taken);
    }
    size_t count = n[0] / 4, models = n[2], size = models ? n[6] / models : 0;
    if (n[0] % 4 || !models || size < 2 || size > MOST_STATES || n[1] != count * size ||
        n[3] != count * models || n[4] != count * models || n[5] != count * models * size ||
        n[6] != models * size || n[7] != models * size * size || n[8] != count * models ||
        n[9] != count * models)
        return refuse(&taken);
    struct passed passed = {own[0], own[1], own[2], own[3], own[4], own[5], count, models, size};
    enum outcome outcome;
    Py_BEGIN_ALLOW_THREADS outcome = look_back(passed, own[6], own[7], own[8], own[9]);
    Py_END_ALLOW_THREADS
    return finish(&taken, outcome);
}

PyObject *py_follow_rounds(PyObject *self, PyObject *args)
{
    PyObject *families[FAMILIES], *fixed, *shown[FAMILIES], *arrays[6];
    struct taken taken = {.count = 0};
    struct bank bank = {.in_use = 0};
    const double *seen[FAMILIES] = {NULL};
    size_t n[6] = {0}, m[MODEL_VIEWS] = {0}, counts[FAMILIES] = {0}, gains = 0, models = 0;
    void *own[6], *model[MODEL_VIEWS];
    if (!PyArg_ParseTuple(args, "(OOO)O(OOO)OOOOOO", &families[0], &families[1], &families[2],
                          &fixed, &shown[0], &shown[1], &shown[2], &arrays[0], &arrays[1],
                          &arrays[2], &arrays[3], &arrays[4], &arrays[5]))
        return NULL;
    for (int i = 0; i < FAMILIES; i++) {
        if (!take_family(&taken, families[i], &bank.families[i]))
            goto wrong;
        seen[i] = entries_of(&taken, shown[i], 0, &counts[i]);
        if (!seen[i])
            goto wrong;
        bank.models.count += bank.families[i].count;
    }
    if (!PyTuple_Check(fixed) || PyTuple_Size(fixed) != MODEL_VIEWS)
        goto wrong;
    for (int i = 0; i < MODEL_VIEWS; i++) {
        model[i] = entries_of(&taken, PyTuple_GetItem(fixed, i), 0, &m[i]);
        if (!model[i])
            goto wrong;
    }
    for (int i = 0; i < 6; i++) {
        own[i] = entries_of(&taken, arrays[i], i != 3, &n[i]);
        if (!own[i])
            goto wrong;
    }
    size_t count = n[3] * 8 / sizeof(struct round);
    bank.in_use = counts[2] ? 3 : 2;
    for (size_t i = 0; i < bank.in_use; i++) {
        if (counts[i] != count * bank.families[i].size)
            goto wrong;
        models += bank.families[i].count;
        gains += bank.families[i].count * bank.families[i].size;
    }
    bank.numbers = model[0];
    bank.models.movement_log = model[1];
    bank.models.fast_prior = model[2];
    bank.models.parts = model[3];
    bank.quantiles = model[4];
    bank.quantile_count = m[4];
    bank.known = own[0];
    bank.weights = own[1];
    bank.evidence = own[2];
    size_t all = bank.models.count;
    if (m[0] * 8 != sizeof(struct numbers) || m[1] != all || m[2] != all || m[3] != all || !m[4] ||
        all > MOST_BANK || n[0] * 8 != sizeof(struct known) || n[1] != all ||
        n[2] != bank.families[0].count + bank.families[1].count ||
        n[3] * 8 != count * sizeof(struct round) || n[4] * 8 != count * sizeof(struct said) ||
        (n[5] && n[5] != count * (5 * models + gains)))
        goto wrong;
    if (!are_models_right(&bank))
        goto wrong;
    enum outcome outcome;
    Py_BEGIN_ALLOW_THREADS outcome =
        follow_rounds(&bank, own[3], seen, count, own[4], n[5] ? own[5] : NULL);
    Py_END_ALLOW_THREADS
    for (int i = 0; i < FAMILIES; i++)
        PyMem_Free(bank.families[i].kept);
    return finish(&taken, outcome);
wrong:
    for (int i = 0; i < FAMILIES; i++)
        PyMem_Free(bank.families[i].kept);
    return refuse(&taken);
}
