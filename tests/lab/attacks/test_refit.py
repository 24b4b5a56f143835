"""What the attacks find on genuine readings: 64 appliances over 25 days of REFIT."""

from pathlib import Path

import numpy as np
import pytest

from rase.domain import Range
from rase.lab.attacks import attack_named
from rase.lab.attacks.runner import attack_scheme
from rase.lab.metrics import AttackResult
from rase.lab.panel import Panel
from rase.lab.schemes import scheme_named


@pytest.fixture(scope="module")
def refit(data_folder: Path) -> Panel:
    """The 64 x 600 table."""
    from pyarrow import parquet

    table = parquet.read_table(data_folder / "refit_64x25d.parquet")
    names, device = np.unique(np.asarray(table["device"].to_pylist()), return_inverse=True)
    times, number = np.unique(
        table["time"].to_numpy().astype("datetime64[ms]").astype(np.int64), return_inverse=True
    )
    values = np.full((len(times), len(names)), np.nan)
    values[number, device] = table["value"].to_numpy()
    return Panel(times, tuple(names.tolist()), values, source="REFIT, 64 appliances, 25 days")


def attacked(panel: Panel, attack: str, scheme: str, **options: float) -> AttackResult:
    """Run one attack by name against a scheme by name, at the 178 W range."""
    chosen = scheme_named(scheme, Range(0, 178), **options)  # type: ignore[arg-type]
    return attack_scheme(panel, chosen, attacks=[attack_named(attack)], seed=1)[0]


@pytest.mark.uncovered
def test_the_papers_ordering_appears_by_profile(refit: Panel) -> None:
    """Raw is far above BR at epsilon 10, and BR above the uniform order, which is near chance."""
    raw, noisy, shuffled = (
        attacked(refit, "profile", name, epsilon=10.0) for name in ("raw", "br", "best")
    )
    assert noisy.macro_recall.is_below(raw.macro_recall)
    assert shuffled.macro_recall.is_below(noisy.macro_recall)
    assert 0.36 < raw.macro_recall.value < 0.83
    assert 0.15 < noisy.macro_recall.value < 0.36
    # 320 profiles at chance 1/64; 15 hits would be 4.5 deviations away.
    assert shuffled.accuracy < 15 / 320


@pytest.mark.uncovered
@pytest.mark.parametrize(("count", "low", "high"), [(8, 0.38, 0.5), (4, 0.07, 0.16)])
def test_order_alone_betrays_mallows_at_alpha_30(
    refit: Panel, count: int, low: float, high: float
) -> None:
    """Who knows centre and theta names many senders whatever the noise, but not under uniform."""
    for epsilon in (0.1, 1.0):
        found = attacked(
            refit, "mallows_aware", "br-mallows", epsilon=epsilon, group_count=count
        ).macro_recall
        assert low < found.value < high
        hidden = attacked(refit, "mallows_aware", "rase", epsilon=epsilon).macro_recall
        assert hidden.is_below(found)
        assert hidden.value < 0.03
