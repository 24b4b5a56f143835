"""Does a forecast made from one half of a record hold in the other half?

What the planner says of `auto` from the readings of one half, against the error on those of the
other half: other days of the same fleet. On the five slices of measured data of
`rase.lab.accuracy`, 16 drawings of the noise for the forecast and 16 others for the error. Needs
the folder of RASE_DATA; takes some minutes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.harness import PeerMissing, Row, Target
from rase.accounting.forecast import forecast_error
from rase.domain import Precision
from rase.errors import DataError
from rase.lab.accuracy import SETS
from rase.laws.registry import randomizer_named

EPSILONS = (1.0, 2.0, 4.0)
SEEDS, OTHER_SEEDS = range(201, 217), range(301, 317)
_NEAR = 1.15
_ROW = re.compile(
    r"(?P<name>.+), epsilon (?P<epsilon>\S+), (?P<halves>.+); forecast (?P<forecast>\S+), "
    r"error (?P<error>[^;]+)(; (?P<where>inside|outside) the 90 % interval .*)?"
)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield for each slice, epsilon and direction how far the forecast was off."""
    for name in list(SETS)[:1] if quick else SETS:
        try:
            panel = SETS[name].panel()
        except DataError as missing:
            raise PeerMissing(str(missing)) from missing
        middle = len(panel.values) // 2
        parts = (slice(None, middle), slice(middle, None))
        times_s = panel.times_ms / 1000
        for epsilon in EPSILONS[1:2] if quick else EPSILONS:
            mechanism = randomizer_named(
                "auto",
                epsilon,
                domain=SETS[name].value_range,
                precision=Precision(beta=0.5, rho=0.9),
            )
            forecasts, errors = (
                [
                    forecast_error(
                        panel.values[part],
                        times_s[part],
                        mechanism=mechanism,
                        seeds=seeds[:2] if quick else seeds,
                    )
                    for part in parts
                ]
                for seeds in (SEEDS, OTHER_SEEDS)
            )
            for words, expected, found in (
                ("first half for the second", forecasts[0], errors[1]),
                ("second half for the first", forecasts[1], errors[0]),
            ):
                forecast, error = expected.tracked, found.tracked
                is_inside = expected.other_low <= error <= expected.other_high
                yield Row(
                    "error forecast from one half",
                    "the error in the other",
                    f"{name}, epsilon {epsilon:g}, {words}",
                    max(forecast / error, error / forecast),
                    "the larger RMSE / the smaller",
                    target=Target("at most", _NEAR),
                    note=f"forecast {forecast:.4g}, error {error:.4g}; "
                    f"{'inside' if is_inside else 'outside'} the 90 % interval "
                    f"{expected.other_low:.4g} to {expected.other_high:.4g}",
                )


def sentence(kept: Sequence[Mapping[str, Any]]) -> str:
    """Return how many forecasts held, as docs/explain/accuracy.md says it."""
    ratios = []
    for row in kept:
        found = _ROW.fullmatch(f"{row['size']}; {row['note']}")
        if found is None:
            raise ValueError(f"row must be one of this benchmark, got {row['size']!r}.")
        ratios.append(float(found["error"]) / float(found["forecast"]))
    far = np.array([ratio for ratio in ratios if not 1 / _NEAR <= ratio <= _NEAR])
    return (
        f"Errors forecast from one half of a record, for the other half: within 15 % in "
        f"{len(ratios) - len(far)} of {len(ratios)}; too small in "
        f"{np.count_nonzero(far > 1)}, by up to {max(ratios):.1f} times, and too large in "
        f"{np.count_nonzero(far < 1)}, by up to {1 / min(ratios):.1f} times."
        f"{_of_intervals(kept)}"
    )


def _of_intervals(kept: Sequence[Mapping[str, Any]]) -> str:
    """Return how many errors the predictive intervals held; nothing of rows without them."""
    held = [" inside the 90 % interval" in row["note"] for row in kept if "90 %" in row["note"]]
    if not held:
        return ""
    return f" The 90 % interval for other days held {sum(held)} of {len(held)}."
