"""Write the computed tables of docs/explain/two-promises.md.

``python scripts/two_promises_page.py`` prints the page with its tables computed again; with
``--write`` it replaces the page. A test holds the page to what is printed.
"""

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rase.accounting.accountant.calibrate import calibrate, worst_error
from rase.accounting.accountant.classes import class_laws, class_pairs
from rase.accounting.accountant.rounds import shuffled_pair
from rase.accounting.amplification import lower_bound
from rase.domain import Range
from rase.kernels.fixed import WORD
from rase.laws.ladder import programme_at
from rase.laws.registry import auto

__all__ = ["TABLES", "main", "page_with_tables"]

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explain" / "two-promises.md"
UNIT = Range(0, 1)
DELTA = 1e-6


def main(arguments: Sequence[str] | None = None) -> int:
    """Print or write the page."""
    parser = argparse.ArgumentParser(prog="python scripts/two_promises_page.py")
    parser.add_argument("--write", action="store_true", help="replace the page")
    asked = parser.parse_args(arguments)
    text = page_with_tables(PAGE.read_text(encoding="utf-8"))
    if asked.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


def page_with_tables(text: str) -> str:
    """Return the page with every table between its marks computed again."""
    for name, table in TABLES.items():
        mark = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        rows = "".join(f"{row}\n" for row in table())
        text, found = re.subn(mark, rf"\g<1>{rows}\g<2>", text, flags=re.DOTALL)
        if found != 1:
            raise ValueError(f"the page must hold one table {name}, got {found}.")
    return text


def _one_round() -> Iterator[str]:
    yield (
        "| n | ε towards the fusion centre | error if the report itself has it | error if the "
        "shuffled round has it | local ε, left if both servers work together |"
    )
    yield "|---|---|---|---|---|"
    for n, wish in ((100, 1.0), (1000, 0.5), (1000, 1.0), (10_000, 1.0), (100_000, 1.0)):
        local = worst_error(auto(wish, UNIT)) / n**0.5
        found = calibrate(UNIT, shuffled_epsilon=wish, delta=DELTA, n=n)
        error = worst_error(found) / n**0.5
        shares = f"{100 * local:.3g} % | {100 * error:.3g} %"
        yield f"| {n:,} | {wish:g} | {shares} | {found.epsilon:.2f} |"


def _k_min() -> Iterator[str]:
    yield "| n | k_min = n: error of a full round | 90 % of n | 80 % of n | 50 % of n |"
    yield "|---|---|---|---|---|"
    for n in (1000, 10_000, 100_000):
        full, *fewer = (
            worst_error(calibrate(UNIT, shuffled_epsilon=1.0, delta=DELTA, n=n * share // 100))
            for share in (100, 90, 80, 50)
        )
        grown = " | ".join(f"{100 * (error / full - 1):.1f} % more" for error in fewer)
        yield f"| {n:,} | {100 * full / n**0.5:.3g} % | {grown} |"


def _spans() -> Iterator[str]:
    yield (
        "| n | (ε, 10⁻⁶) for | law | error of one round | local ε of a report | left for the span "
        "if both servers work together |"
    )
    yield "|---|---|---|---|---|---|"
    for n in (1000, 10_000, 100_000):
        for span, reports in (("a round", 1), ("a day of 24", 24), ("a month of 720", 720)):
            found = calibrate(UNIT, shuffled_epsilon=1.0, delta=DELTA, n=n, rounds=reports)
            local = float(found.epsilon)  # type: ignore[arg-type]
            error = worst_error(found) / n**0.5
            yield (
                f"| {n:,} | {span}: 1 | {found.name} | {100 * error:.3g} % | {local:.3g} | "
                f"{_rounded(reports * local)} |"
            )


def _turns() -> Iterator[str]:
    yield (
        "| n | all report every hour: local ε, error of a round | each once a day: local ε, error "
        "of a round |"
    )
    yield "|---|---|---|"
    for n in (1000, 10_000, 100_000):
        cells = []
        for reports, in_a_round in ((24, n), (1, n // 24)):
            found = calibrate(UNIT, shuffled_epsilon=1.0, delta=DELTA, n=in_a_round, rounds=reports)
            error = worst_error(found) / in_a_round**0.5
            cells.append(f"{found.epsilon:.3g}, {100 * error:.3g} %")
        yield f"| {n:,} | {cells[0]} | {cells[1]} |"


def _rounded(epsilon: float) -> str:
    return f"{epsilon:.3g}" if epsilon < 100 else f"{epsilon:,.0f}"


def _bounds() -> Iterator[str]:
    yield "| n, ε of a report | reports | clones | own pair | at least |"
    yield "|---|---|---|---|---|"
    for n, epsilon in ((20_000, 1.5), (1000, 1.0), (1000, 2.0)):
        law = auto(epsilon, UNIT)
        for reports in (1, 24, 720):
            clones = shuffled_pair(epsilon, n).compose(reports).epsilon(DELTA)
            own = shuffled_pair(law, n).compose(reports).epsilon(DELTA)
            least = lower_bound(law, n, rounds=reports, delta=DELTA)
            yield f"| {n:,}, {epsilon:g} | {reports} | {clones:.4g} | {own:.4g} | {least:.4g} |"


def _classes() -> Iterator[str]:
    yield (
        "| fleet | reports | shuffled ε of both halves | noise of the fleet's mean | off if the "
        "halves differ by 10 % of the range |"
    )
    yield "|---|---|---|---|---|"
    for n, small, large in ((1000, 1.0, 3.0), (10_000, 1.5, 4.5)):
        half, laws = n // 2, class_laws(UNIT, (small, large))
        mixed = class_pairs(UNIT, {small: half, large: half}, delta=DELTA)
        both = [mixed[one].epsilon(DELTA) for one in (small, large)]
        # Read without a name, a report counts by how little of its own blanket it was mixed with.
        weight = (WORD - programme_at(large).blanket_share(small)) / WORD
        noise = [worst_error(law) for law in laws]
        mean = ((weight * noise[0]) ** 2 + noise[1] ** 2) ** 0.5 / half**0.5 / (1 + weight)
        alone = [shuffled_pair(auto(one, UNIT), half).epsilon(DELTA) for one in (small, large)]
        named = [worst_error(auto(one, UNIT)) for one in (small, large)]
        less = calibrate(UNIT, shuffled_epsilon=both[1], delta=DELTA, n=half)
        all_small = shuffled_pair(auto(small, UNIT), n).epsilon(DELTA)
        fitted = [named[0], worst_error(less)]
        precise = [one**-2 for one in fitted]
        kept = f"{less.epsilon:.3g}"
        for reports, promises, error, off in (
            (f"all with {small:g}", [all_small], named[0] / n**0.5, 0.0),
            (f"only the half that allows {large:g}", alone[1:], named[1] / half**0.5, 0.05),
            (f"{small:g} and {large:g}, named", alone, _of_halves(named, half), 0.0),
            (f"{small:g} and {kept}, named", [alone[0], both[1]], _of_halves(fitted, half), 0.0),
            (
                "the same, each half counted by its precision",
                [alone[0], both[1]],
                (half * sum(precise)) ** -0.5,
                0.1 * abs(precise[0] / sum(precise) - 0.5),
            ),
            (
                f"{small:g} and {large:g}, mixed from one rung, without names",
                both,
                mean,
                0.1 * abs(weight / (1 + weight) - 0.5),
            ),
        ):
            stated = ", ".join(f"{one:.3g}" for one in promises)
            yield (
                f"| {n:,}, halves allow {small:g} and {large:g} | {reports} | {stated} | "
                f"{100 * error:.3g} % | {100 * off:.2g} % |"
            )


def _of_halves(noise: Sequence[float], half: int) -> float:
    """Return the error of a mean in which both halves count alike."""
    return math.sqrt(sum(one**2 for one in noise) / half) / 2


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "one round": _one_round,
    "k_min": _k_min,
    "spans": _spans,
    "turns": _turns,
    "bounds": _bounds,
    "classes": _classes,
}

if __name__ == "__main__":
    raise SystemExit(main())
