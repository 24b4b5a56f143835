/* rase.kernels._native: the compiled twins of the NumPy kernels, as a module of the stable ABI.
 *
 * Arrays come as buffers, so NumPy's headers are not needed. Sizes are checked here, contents by
 * the functions themselves. Work runs without the interpreter's lock. */

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>

#include "native.h"
#include "native_series.h"

#define WITHOUT_LOCK(statement)                                                                    \
    do {                                                                                           \
        Py_BEGIN_ALLOW_THREADS statement;                                                          \
        Py_END_ALLOW_THREADS                                                                       \
    } while (0)

/* How many 8-byte entries a buffer holds; -1 if it is not made of such. */
static Py_ssize_t entries(const Py_buffer *view)
{
    if (view->len % 8 || (uintptr_t)view->buf % 8)
        return -1;
    return view->len / 8;
}

static void release(Py_buffer *views, int count)
{
    for (int i = 0; i < count; i++)
        PyBuffer_Release(&views[i]);
}

static PyObject *wrong_sizes(Py_buffer *views, int count)
{
    release(views, count);
    PyErr_SetString(PyExc_ValueError, "arrays must be aligned and of sizes that fit together.");
    return NULL;
}

static PyObject *answer(enum outcome outcome, Py_buffer *views, int count)
{
    release(views, count);
    if (outcome == NO_MEMORY)
        return PyErr_NoMemory();
    return PyBool_FromLong(outcome == DONE);
}

static PyObject *counted(enum outcome outcome, uint64_t total, Py_buffer *views, int count)
{
    release(views, count);
    if (outcome == NO_MEMORY)
        return PyErr_NoMemory();
    return outcome == DONE ? PyLong_FromUnsignedLongLong(total) : PyLong_FromLong(-1);
}

/* Take bounds and guide as a table of `count` boundaries; 0 unless both have a power of two of
 * entries, the bounds two more. */
static int as_table(const Py_buffer *bounds, const Py_buffer *guide, Py_ssize_t count,
                    struct table *table)
{
    Py_ssize_t room = entries(bounds) - 2, cells = guide->len / 4;
    if (room < 1 || (size_t)room > MOST_ITEMS || (room & (room - 1)) || count < 0 ||
        count >= room || cells < 2 || guide->len % 4 || (uintptr_t)guide->buf % 4 ||
        (cells & (cells - 1)))
        return 0;
    table->bounds = bounds->buf;
    table->count = (size_t)count;
    table->mask = (uint32_t)(room - 1);
    table->guide = guide->buf;
    table->shift = 64;
    for (Py_ssize_t rest = cells; rest > 1; rest >>= 1)
        table->shift--;
    return 1;
}

static PyObject *py_integers_below(PyObject *self, PyObject *args)
{
    Py_buffer v[3];
    if (!PyArg_ParseTuple(args, "y*y*w*", &v[0], &v[1], &v[2]))
        return NULL;
    Py_ssize_t n = entries(&v[0]);
    if (n < 0 || entries(&v[1]) != n || entries(&v[2]) != n)
        return wrong_sizes(v, 3);
    enum outcome outcome;
    WITHOUT_LOCK(outcome = integers_below(v[0].buf, v[1].buf, v[2].buf, (size_t)n));
    return answer(outcome, v, 3);
}

static PyObject *py_draw_indices(PyObject *self, PyObject *args)
{
    Py_buffer v[4];
    struct table table;
    Py_ssize_t boundaries;
    if (!PyArg_ParseTuple(args, "(y*y*n)y*w*", &v[0], &v[1], &boundaries, &v[2], &v[3]))
        return NULL;
    Py_ssize_t n = entries(&v[2]);
    if (!as_table(&v[0], &v[1], boundaries, &table) || n < 0 || entries(&v[3]) != n)
        return wrong_sizes(v, 4);
    WITHOUT_LOCK(draw_indices(table, v[2].buf, v[3].buf, (size_t)n));
    return answer(DONE, v, 4);
}

static PyObject *py_add_settled(PyObject *self, PyObject *args)
{
    Py_buffer v[4];
    struct table table;
    Py_ssize_t boundaries;
    unsigned long long weight;
    int is_endless;
    if (!PyArg_ParseTuple(args, "(y*y*n)y*Kw*p", &v[0], &v[1], &boundaries, &v[2], &weight, &v[3],
                          &is_endless))
        return NULL;
    Py_ssize_t n = entries(&v[2]);
    if (!as_table(&v[0], &v[1], boundaries, &table) || n < 0 || entries(&v[3]) != n)
        return wrong_sizes(v, 4);
    enum outcome outcome;
    WITHOUT_LOCK(outcome = add_settled(table, v[2].buf, weight, v[3].buf, (size_t)n, is_endless));
    return answer(outcome, v, 4);
}

static PyObject *py_clamped_places(PyObject *self, PyObject *args)
{
    Py_buffer v[5];
    struct table table;
    Py_ssize_t boundaries;
    struct grid grid;
    long long steps;
    if (!PyArg_ParseTuple(args, "(y*y*n)(ddL)y*y*w*", &v[0], &v[1], &boundaries, &grid.low,
                          &grid.step, &steps, &v[2], &v[3], &v[4]))
        return NULL;
    Py_ssize_t n = entries(&v[2]);
    grid.steps = steps;
    if (!as_table(&v[0], &v[1], boundaries, &table) || steps < 1 || steps > MOST_STEPS || n < 0 ||
        entries(&v[3]) != n || entries(&v[4]) != n)
        return wrong_sizes(v, 5);
    enum outcome outcome;
    WITHOUT_LOCK(outcome = clamped_places(table, grid, v[2].buf, v[3].buf, v[4].buf, (size_t)n));
    return answer(outcome, v, 5);
}

static PyObject *py_window_or_bit_places(PyObject *self, PyObject *args)
{
    Py_buffer v[3];
    struct parts parts;
    struct grid grid;
    long long steps;
    unsigned long long p[6];
    int half, margin;
    if (!PyArg_ParseTuple(args, "(KKKKKKii)(ddL)y*y*w*", &p[0], &p[1], &p[2], &p[3], &p[4], &p[5],
                          &half, &margin, &grid.low, &grid.step, &steps, &v[0], &v[1], &v[2]))
        return NULL;
    parts = (struct parts){p[0], p[1], p[2], p[3], p[4], p[5], half, margin};
    Py_ssize_t n = entries(&v[0]);
    grid.steps = steps;
    if (!p[1] || !p[2] || half < 0 || half > MOST_STEPS || margin < 0 || margin > MOST_STEPS ||
        steps < 1 || steps > MOST_STEPS || n < 0 || entries(&v[1]) != n || entries(&v[2]) != n)
        return wrong_sizes(v, 3);
    enum outcome outcome;
    WITHOUT_LOCK(outcome = window_or_bit_places(parts, grid, v[0].buf, v[1].buf, v[2].buf,
                                                (size_t)n));
    return answer(outcome, v, 3);
}

static PyObject *py_row_places(PyObject *self, PyObject *args)
{
    Py_buffer v[6];
    struct rows rows;
    struct grid grid;
    long long steps;
    if (!PyArg_ParseTuple(args, "(y*y*y*)(ddL)y*y*w*", &v[0], &v[1], &v[2], &grid.low, &grid.step,
                          &steps, &v[3], &v[4], &v[5]))
        return NULL;
    Py_ssize_t sums = entries(&v[0]), count = entries(&v[2]), n = entries(&v[3]);
    Py_ssize_t inputs = count > 0 && sums > 0 ? sums / count - 1 : 0;
    grid.steps = steps;
    if (inputs < 2 || (size_t)count > FAR_APART || (size_t)sums > MOST_ITEMS >> (ROW_BITS + WORD_BITS) ||
        sums % count || v[1].len != inputs << (ROW_BITS + WORD_BITS + 1) ||
        (uintptr_t)v[1].buf % 2 || steps < 1 || steps > MOST_STEPS || n < 0 ||
        entries(&v[4]) != n || entries(&v[5]) != n)
        return wrong_sizes(v, 6);
    rows = (struct rows){v[0].buf, v[1].buf, v[2].buf, (size_t)inputs, (size_t)count};
    enum outcome outcome;
    WITHOUT_LOCK(outcome = row_places(rows, grid, v[3].buf, v[4].buf, v[5].buf, (size_t)n));
    return answer(outcome, v, 6);
}

static PyObject *py_swap_rows(PyObject *self, PyObject *args)
{
    Py_buffer v[2];
    Py_ssize_t rounds;
    if (!PyArg_ParseTuple(args, "y*w*n", &v[0], &v[1], &rounds))
        return NULL;
    Py_ssize_t all = entries(&v[0]);
    if (all < 0 || entries(&v[1]) != all || rounds < 1 || all % rounds)
        return wrong_sizes(v, 2);
    enum outcome outcome;
    WITHOUT_LOCK(outcome =
                     swap_rows(v[0].buf, v[1].buf, (size_t)rounds, (size_t)(all / rounds)));
    return answer(outcome, v, 2);
}

static PyObject *py_partners_of(PyObject *self, PyObject *args)
{
    Py_buffer v[2];
    Py_ssize_t start, n;
    if (!PyArg_ParseTuple(args, "y*nnw*", &v[0], &start, &n, &v[1]))
        return NULL;
    Py_ssize_t count = entries(&v[0]);
    if (count < 0 || start < 0 || start > n || count > n - start || entries(&v[1]) != count)
        return wrong_sizes(v, 2);
    enum outcome outcome;
    WITHOUT_LOCK(outcome = partners_of(v[0].buf, (size_t)start, (size_t)n, v[1].buf,
                                       (size_t)count));
    return answer(outcome, v, 2);
}

static PyObject *py_interchange(PyObject *self, PyObject *args)
{
    Py_buffer v[2];
    Py_ssize_t start, size;
    if (!PyArg_ParseTuple(args, "y*w*nn", &v[0], &v[1], &size, &start))
        return NULL;
    Py_ssize_t count = entries(&v[0]);
    if (count < 0 || (size != 4 && size != 8) || v[1].len % size || (uintptr_t)v[1].buf % size)
        return wrong_sizes(v, 2);
    Py_ssize_t n = v[1].len / size;
    if (start < 0 || start > n || count > n - start)
        return wrong_sizes(v, 2);
    enum outcome outcome;
    WITHOUT_LOCK(outcome = interchange(v[0].buf, v[1].buf, (size_t)size, (size_t)start, (size_t)n,
                                       (size_t)count));
    return answer(outcome, v, 2);
}

static PyObject *py_order_from_swaps(PyObject *self, PyObject *args)
{
    Py_buffer v[2];
    if (!PyArg_ParseTuple(args, "y*w*", &v[0], &v[1]))
        return NULL;
    Py_ssize_t n = entries(&v[0]);
    if (n < 0 || entries(&v[1]) != n)
        return wrong_sizes(v, 2);
    enum outcome outcome;
    WITHOUT_LOCK(outcome = order_from_swaps(v[0].buf, v[1].buf, (size_t)n));
    return answer(outcome, v, 2);
}

static PyObject *py_replace_items(PyObject *self, PyObject *args)
{
    Py_buffer v[2];
    if (!PyArg_ParseTuple(args, "w*y*", &v[0], &v[1]))
        return NULL;
    Py_ssize_t n = entries(&v[0]);
    if (n < 0 || entries(&v[1]) != n)
        return wrong_sizes(v, 2);
    enum outcome outcome;
    WITHOUT_LOCK(outcome = replace_items(v[0].buf, v[1].buf, (size_t)n));
    return answer(outcome, v, 2);
}

static PyObject *py_orders_from_codes(PyObject *self, PyObject *args)
{
    Py_buffer v[2];
    Py_ssize_t rounds;
    int is_free;
    if (!PyArg_ParseTuple(args, "y*w*np", &v[0], &v[1], &rounds, &is_free))
        return NULL;
    Py_ssize_t all = entries(&v[0]);
    if (all < 0 || entries(&v[1]) != all || rounds < 1 || all % rounds ||
        (size_t)(all / rounds) > MOST_ITEMS)
        return wrong_sizes(v, 2);
    enum outcome outcome;
    WITHOUT_LOCK(outcome = orders_from_codes(v[0].buf, v[1].buf, (size_t)rounds,
                                             (size_t)(all / rounds), is_free));
    return answer(outcome, v, 2);
}

static PyObject *py_count_inversions(PyObject *self, PyObject *args)
{
    Py_buffer v[1];
    if (!PyArg_ParseTuple(args, "y*", &v[0]))
        return NULL;
    Py_ssize_t n = entries(&v[0]);
    if (n < 0 || (size_t)n > MOST_ITEMS)
        return wrong_sizes(v, 1);
    enum outcome outcome;
    uint64_t total = 0;
    WITHOUT_LOCK(outcome = count_inversions(v[0].buf, (size_t)n, &total));
    return counted(outcome, total, v, 1);
}

static PyObject *py_count_disagreements(PyObject *self, PyObject *args)
{
    Py_buffer v[2];
    if (!PyArg_ParseTuple(args, "y*y*", &v[0], &v[1]))
        return NULL;
    Py_ssize_t n = entries(&v[0]);
    if (n < 0 || (size_t)n > MOST_ITEMS || entries(&v[1]) != n)
        return wrong_sizes(v, 2);
    enum outcome outcome;
    uint64_t total = 0;
    WITHOUT_LOCK(outcome = count_disagreements(v[0].buf, v[1].buf, (size_t)n, &total));
    return counted(outcome, total, v, 2);
}

static PyObject *py_is_permutation(PyObject *self, PyObject *args)
{
    Py_buffer v[1];
    if (!PyArg_ParseTuple(args, "y*", &v[0]))
        return NULL;
    Py_ssize_t n = entries(&v[0]);
    if (n < 0)
        return wrong_sizes(v, 1);
    enum outcome outcome;
    WITHOUT_LOCK(outcome = check_permutation(v[0].buf, (size_t)n));
    return answer(outcome, v, 1);
}

static PyObject *py_instructions(PyObject *self, PyObject *unused)
{
    return PyUnicode_FromString(instructions_used());
}

/* From which sources this was built: setup.py hands the number in. */
#ifndef RASE_STAMP
#define RASE_STAMP 0
#endif
static PyObject *py_stamp(PyObject *self, PyObject *unused)
{
    return PyLong_FromUnsignedLongLong(RASE_STAMP);
}

static PyMethodDef methods[] = {
    {"integers_below", py_integers_below, METH_VARARGS, "Draw below each bound."},
    {"draw_indices", py_draw_indices, METH_VARARGS, "Draw from one table."},
    {"add_settled", py_add_settled, METH_VARARGS, "Add draws unless one is left open."},
    {"clamped_places", py_clamped_places, METH_VARARGS, "Round, add noise, clamp."},
    {"window_or_bit_places", py_window_or_bit_places, METH_VARARGS, "Draw near, far, or a bit."},
    {"row_places", py_row_places, METH_VARARGS, "Draw from rows mixed in pairs."},
    {"swap_rows", py_swap_rows, METH_VARARGS, "Shuffle each row in place."},
    {"partners_of", py_partners_of, METH_VARARGS, "Draw the partner of each place."},
    {"interchange", py_interchange, METH_VARARGS, "Go on interchanging in turn."},
    {"order_from_swaps", py_order_from_swaps, METH_VARARGS, "Interchange in turn."},
    {"replace_items", py_replace_items, METH_VARARGS, "Put values where their items stand."},
    {"orders_from_codes", py_orders_from_codes, METH_VARARGS, "Pick among the remaining."},
    {"count_inversions", py_count_inversions, METH_VARARGS, "Count pairs in falling order."},
    {"count_disagreements", py_count_disagreements, METH_VARARGS, "Count pairs two orders turn."},
    {"is_permutation", py_is_permutation, METH_VARARGS, "Tell whether each item occurs once."},
    {"filter_rounds", py_filter_rounds, METH_VARARGS, "Take rounds into filters of one shape."},
    {"look_back", py_look_back, METH_VARARGS, "Go backward through filtered rounds."},
    {"follow_rounds", py_follow_rounds, METH_VARARGS, "Take rounds into a bank of filters."},
    {"stamp", py_stamp, METH_NOARGS, "Return a number of the sources."},
    {"instructions", py_instructions, METH_NOARGS, "Name the instructions in use."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "rase.kernels._native",
    .m_doc = "The compiled twins of the NumPy kernels.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&module); }
