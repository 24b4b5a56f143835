"""What forks the Python workers of Spark, with everything loaded before: a setting of the tests.

PySpark's own daemon loads next to nothing, so that every worker reads Spark's modules from an
archive of sources, compiles them, and loads numpy, pyarrow and this project again.
"""

import gc
import importlib
import sys

_LOADED = ("pandas", "pyspark.worker", "rase.tables.spark_steps", "rase.tables.spark_tasks")


def main() -> None:
    """Load what workers need, and fork them as PySpark's own daemon does."""
    # The same modules are installed, and compiled.
    sys.path[:] = [place for place in sys.path if not place.endswith(".zip")]
    for place in [one for one in sys.path_importer_cache if ".zip" in one]:
        del sys.path_importer_cache[place]
    for name in _LOADED:
        importlib.import_module(name)
    # Workers collect garbage after every task; what is loaded already is none.
    gc.freeze()
    importlib.import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
