"""Both promises of a campaign before it runs: towards the fusion centre, and towards everybody."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from rase.accounting.accountant.calibrate import calibrate, worst_error
from rase.accounting.accountant.claims import claims
from rase.accounting.accountant.mean import LATTICE_PLACES, mean_profile
from rase.accounting.blanket import is_bit
from rase.domain import Range
from rase.laws.optimal import Optimal
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import randomizer_named
from rase.privacy import rounded_up
from rase.promise import Claim

__all__ = ["Promises", "PublishedMean", "default_k_min", "plan_promises"]

# A round is withheld below this share of the devices, unless another is given.
_ADMITTED = (4, 5)
_DAY_S, _DAYS = 86_400, 30
# Without a length of rounds a device is taken to report every hour.
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class PublishedMean:
    """What one published mean a round gives away to whoever sees nothing else.

    Args:
        epsilon: The epsilon of one round; that of all shuffled reports where a mean says as much.
        delta: Its delta.
        places: How many values a report may count as in a range; None where they are two anyway.
    """

    epsilon: float
    delta: float
    places: int | None

    @property
    def sentence(self) -> str:
        """To whom it applies, and under which conditions."""
        stated = f"({rounded_up(self.epsilon):g}, {self.delta:g})-DP"
        if self.places is None:
            return (
                f"Whoever sees one mean a round and nothing else: {stated} as well; the mean of "
                "bits says all that they say."
            )
        return (
            f"Whoever sees one mean a round and nothing else, every report rounded at random to a "
            f"multiple of 1/{self.places} of the range: {stated}. Answers of a fusion centre come "
            "with errors, spreads and histograms: for their readers the numbers above hold."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "sentence": self.sentence}


@dataclass(frozen=True, slots=True)
class Promises:
    """What devices are promised, towards the fusion centre and towards everybody.

    Args:
        randomizer: What devices report by.
        devices: How many report in a full round.
        k_min: The fewest reports that are released together.
        colluding: How many of them may be the adversary's.
        reports: How many reports of a device share the promise that was wished for.
        shuffled_epsilon: The wish towards the fusion centre; None if the local epsilon was wished.
        spans: What a report, a day and a month give away, by name.
        published: What one published mean a round gives away to whoever sees nothing else; None
            if that was not asked.
    """

    randomizer: RangeRandomizer
    devices: int
    k_min: int
    colluding: int
    reports: int
    shuffled_epsilon: float | None
    spans: tuple[tuple[str, Claim], ...]
    published: PublishedMean | None = None

    @property
    def standard_error(self) -> float:
        """The largest standard error of the mean of a full round, over all readings."""
        return worst_error(self.randomizer) / math.sqrt(self.devices)

    @property
    def sentence(self) -> str:
        """Both promises and the error, the price in the same sentence."""
        claim = self.spans[0][1]
        honest = f"{self.k_min} reports"
        if self.colluding:
            honest += f", of which {self.colluding} may be the adversary's"
        share = self.standard_error / self.randomizer.domain.width
        return (
            f"A report of {self.randomizer.name} noise, released among at least {honest}: "
            f"{claim.summary}. Standard error of a round of {self.devices} reports: "
            f"{self.standard_error:.3g} ({100 * share:.3g} % of the range)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the promises as JSON values."""
        certificate = self.randomizer.certificate()
        return {
            "mechanism": self.randomizer.name,
            "local_epsilon": certificate.epsilon,
            "drawn_epsilon": certificate.drawn_epsilon,
            "shuffled_epsilon": self.spans[0][1].epsilon,
            "delta": self.spans[0][1].delta,
            "wished_shuffled_epsilon": self.shuffled_epsilon,
            "wished_reports": self.reports,
            "k_min": self.k_min,
            "colluding": self.colluding,
            "standard_error": self.standard_error,
            "standard_error_share": self.standard_error / self.randomizer.domain.width,
            "sentence": self.sentence,
            "spans": [_span(span, claim) for span, claim in self.spans],
            "published_mean": None if self.published is None else self.published.to_dict(),
        }


def _span(span: str, claim: Claim) -> dict[str, Any]:
    return {
        "span": span,
        **asdict(claim),
        "certainty_in_100": claim.surer(100),
        "certainty_in_1000": claim.surer(1000),
        "colluding_certainty": claim.colluding_certainty,
        "sentence": claim.sentence("round" if span == "report" else span),
    }


def default_k_min(devices: int) -> int:
    """Return the k_min that is planned with unless one is given: four fifths of the devices.

    Example:
        >>> default_k_min(1000), default_k_min(2)
        (800, 2)
    """
    part, whole = _ADMITTED
    return max(2, devices * part // whole)


def plan_promises(
    domain: Range,
    *,
    devices: int,
    shuffled_epsilon: float | None = None,
    local_epsilon: float | None = None,
    delta: float = 1e-6,
    k_min: int | None = None,
    colluding: int = 0,
    reports: int = 1,
    max_local_epsilon: float | None = None,
    mechanism: str = "auto",
    interval_s: int | None = None,
    published_mean: bool = False,
) -> Promises:
    """Return both promises from either wish, computed at ``k_min - colluding``.

    Guarantee: that of `rase.accounting.accountant.claims.claims`
    (tests/accounting/plan/test_promises.py).

    Args:
        domain: The public range.
        devices: How many devices report in a full round.
        shuffled_epsilon: The epsilon wished for towards the fusion centre, for ``reports`` reports
            of a device together; or give ``local_epsilon``.
        local_epsilon: The epsilon of one report wished for, against everybody.
        delta: The delta of the promise towards the fusion centre.
        k_min: The fewest reports that are released together; four fifths of the devices unless
            given.
        colluding: How many of them may be the adversary's.
        reports: How many reports of a device share the shuffled promise.
        max_local_epsilon: The most that a report may have on its own.
        mechanism: A mechanism for means, or ``auto``.
        interval_s: How often a device reports, for a day and a month; an hour unless given.
        published_mean: Whether to bound as well what one published mean a round gives away, taken
            by `rase.counts.mean.lattice_mean`, to whoever sees nothing else
            (tests/statistical/test_published_mean.py simulates them).

    Raises:
        PrivacyRefused: If nothing keeps the shuffled promise.
        ValueError: If not exactly one of both wishes is given, or an argument is out of bounds.

    Example:
        >>> made = plan_promises(Range(0, 1), devices=1000, shuffled_epsilon=1.0)
        >>> made.k_min, round(made.standard_error, 4)
        (800, 0.0083)
    """
    if shuffled_epsilon is not None and local_epsilon is not None:
        raise ValueError("either shuffled_epsilon or epsilon must be given, got both.")
    if shuffled_epsilon is None and reports != 1:
        raise ValueError("reports must come with shuffled_epsilon, which they share.")
    if devices < 2:
        raise ValueError(
            f"devices must be at least 2, got {devices}; one has nobody to hide among."
        )
    if reports < 1:
        raise ValueError(f"reports must be at least 1, got {reports}.")
    fewest = default_k_min(devices) if k_min is None else k_min
    if not 2 <= fewest <= devices:
        raise ValueError(f"k_min must be between 2 and the {devices} devices, got {fewest}.")
    if not 0 <= colluding <= fewest - 2:
        raise ValueError(
            f"colluding must leave two honest reports of k_min {fewest}, got {colluding}."
        )
    honest = fewest - colluding
    if shuffled_epsilon is not None:
        randomizer = calibrate(
            domain,
            shuffled_epsilon=shuffled_epsilon,
            delta=delta,
            n=honest,
            rounds=reports,
            max_local_epsilon=max_local_epsilon,
            mechanism=mechanism,
        )
    elif local_epsilon is None:
        raise ValueError("either shuffled_epsilon or epsilon must be given, got neither.")
    else:
        if max_local_epsilon is not None and local_epsilon > max_local_epsilon:
            raise ValueError(
                f"epsilon must be at most max_local_epsilon {max_local_epsilon:g}, "
                f"got {local_epsilon:g}."
            )
        randomizer = randomizer_named(mechanism, local_epsilon, domain=domain)
    spans = _spans(_HOUR_S if interval_s is None else interval_s)
    table = claims(randomizer, honest, delta=delta, reports=spans.values())
    by_number = {claim.reports: claim for claim in table}
    return Promises(
        randomizer=randomizer,
        devices=devices,
        k_min=fewest,
        colluding=colluding,
        reports=reports,
        shuffled_epsilon=shuffled_epsilon,
        spans=tuple((span, by_number[number]) for span, number in spans.items()),
        published=_published_mean(randomizer, honest, by_number[1]) if published_mean else None,
    )


def _published_mean(law: RangeRandomizer, honest: int, report: Claim) -> PublishedMean:
    """Return what one published mean a round gives away, where a report's claim is known."""
    if is_bit(law):
        return PublishedMean(report.epsilon, report.delta, None)
    if not isinstance(law, Optimal):
        raise ValueError(
            f"mechanism must be optimal or duchi for a published mean, got {law.name}: the bound "
            "needs finitely many values."
        )
    found = mean_profile(law, honest, delta=report.delta).epsilon(report.delta)
    # What follows from the reports themselves holds for their mean, too.
    return PublishedMean(min(found, report.epsilon), report.delta, LATTICE_PLACES)


def _spans(interval_s: int) -> dict[str, int]:
    """Return how many reports a device sends in a report, a day and a month of 30 days."""
    if interval_s < 1:
        raise ValueError(f"interval_s must be at least 1, got {interval_s}.")
    return {
        "report": 1,
        "day": max(1, _DAY_S // interval_s),
        "month": max(1, _DAYS * _DAY_S // interval_s),
    }
