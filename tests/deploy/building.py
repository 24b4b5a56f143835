"""Builds of the package in which only its files matter, not how fast its kernels are."""

from pathlib import Path

__all__ = ["compile_quickly"]


def compile_quickly(source: Path) -> None:
    """Have the kernels of a copied source compiled in a tenth of the time, without optimisation."""
    setup = source / "setup.py"
    text = setup.read_text("utf-8")
    assert text.count('"-O3"') == 1
    setup.write_text(text.replace('"-O3"', '"-O0"'), "utf-8")
