"""Build the compiled kernels; all else about the project stands in pyproject.toml.

Without a compiler the extension is left out, and the NumPy kernels serve.
"""

from setuptools import Extension, setup

SOURCES = ["module", "draws", "places", "orders"]

setup(
    ext_modules=[
        Extension(
            "rase.kernels._native",
            sources=[f"src/rase/kernels/native_{name}.c" for name in SOURCES],
            depends=["src/rase/kernels/native.h", "src/rase/kernels/native_orders_body.h"],
            # No contraction: every float must be the one that NumPy computes.
            extra_compile_args=["-std=c11", "-O3", "-ffp-contract=off", "-Wall"],
            define_macros=[("Py_LIMITED_API", "0x030b0000")],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
