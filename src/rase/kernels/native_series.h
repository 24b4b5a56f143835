/* Functions of native_series.c in the module. */

#ifndef RASE_NATIVE_SERIES_H
#define RASE_NATIVE_SERIES_H

#include <Python.h>

PyObject *py_filter_rounds(PyObject *self, PyObject *args);
PyObject *py_look_back(PyObject *self, PyObject *args);
PyObject *py_follow_rounds(PyObject *self, PyObject *args);

#endif
