"""The audit of both promises: honest ones hold, and a fault of 5 % in either is noticed.

False alarms: none by chance, as the seed is fixed; at any seed fewer than one in a million audits.
Power: each fault exceeds its claim by at least twice what the bound loses to chance. Large rounds
are held to observers by computation, which has no false alarms, and reports to their exact law.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.cases import each_case

from rase import Duchi, Optimal, Range, SeededRandom
from rase.accounting.accountant.claims import claims
from rase.lab.audit.orders import promise_subjects
from rase.lab.audit.reports import proven_subjects, report_law_subject, report_subject
from rase.lab.audit.subject import AnySubject, audit_claims
from rase.laws.randomizer import RangeRandomizer
from rase.promise import Claim

PUBLIC = Range(0, 3000)
SAMPLES = 1_000_000
BIT = Duchi(2.0, PUBLIC)


def broken(subjects: Sequence[AnySubject], *, samples: int = SAMPLES) -> list[str]:
    """Return the names of claims that an audit calls broken."""
    found = audit_claims(subjects, samples=samples, rng=SeededRandom(2026))
    return [one.name.rsplit(", ")[-1] for one in found if not one.holds]


@pytest.fixture(scope="module")
def claim() -> Claim:
    """Return what four bits of epsilon 2 are claimed to give away."""
    (found,) = claims(BIT, 4, delta=1e-2, reports=1)
    return found


@each_case(
    ("law", "n", "samples"),
    [(BIT, 4, SAMPLES), (Duchi(1.0, PUBLIC), 16, 200_000), (Optimal(2.35, PUBLIC), 16, 100_000)],
)
def test_honest_promises_hold(law: RangeRandomizer, n: int, samples: int) -> None:
    """Neither the best guess nor epsilon is passed by the observer who knows all others."""
    assert broken(promise_subjects("honest", law, n, delta=1e-2), samples=samples) == []


def test_a_shuffled_promise_five_percent_too_good_is_noticed(claim: Claim) -> None:
    """In the chance of a right guess beyond that of a coin, and in epsilon."""
    better = replace(claim, guess=0.5 + 0.95 * (claim.guess - 0.5), epsilon=0.95 * claim.epsilon)
    subjects = promise_subjects("too good", BIT, 4, delta=1e-2, stated=better)
    assert broken(subjects) == ["best guess", "epsilon"]


def test_noise_five_percent_too_small_breaks_both_promises(claim: Claim) -> None:
    """Devices that draw with 5 % more epsilon than is stated, locally and shuffled."""
    faulty = Duchi(1.05 * 2.0, PUBLIC)
    subjects = promise_subjects("faulty", faulty, 4, delta=1e-2, stated=claim)
    assert broken(subjects) == ["best guess", "epsilon"]
    assert broken([report_subject("local", faulty, claim=2.0)]) == ["local"]
    assert broken([report_subject("local", BIT, claim=2.0)]) == []


def test_a_channel_five_percent_too_good_is_noticed_in_the_best_guess() -> None:
    """The likelihood ratio among others in the middle comes within 2 % of the stated guess.

    Its epsilon has more slack at this size: there 5 % are noticed of bits alone.
    """
    channel = Optimal(3.35, PUBLIC)
    (claim,) = claims(channel, 16, delta=1e-2, reports=1)
    better = replace(claim, guess=0.5 + 0.95 * (claim.guess - 0.5))
    for stated, found in ((better, ["best guess"]), (claim, [])):
        subjects = promise_subjects("channel", channel, 16, delta=1e-2, stated=stated)
        assert broken(subjects, samples=200_000) == found


# Rounds at delta 1e-6 as campaigns have them: a law, n, and how many reports of a device.
LARGE = (
    (Optimal(1.6, PUBLIC), 100, (1,)),
    (Optimal(3.3217, PUBLIC), 1000, (1,)),
    (Optimal(5.4874, PUBLIC), 10_000, (1,)),
    (Optimal(7.7655, PUBLIC), 100_000, (24,)),
    (Duchi(1.3858, PUBLIC), 1000, (1, 24)),
    (Duchi(0.277, PUBLIC), 1000, (720,)),
)


@each_case(("law", "n", "reports"), LARGE)
def test_large_rounds_keep_their_promises(
    law: RangeRandomizer, n: int, reports: tuple[int, ...]
) -> None:
    """The best observer achieves no more than is stated, for a round, a day and a month."""
    assert broken(proven_subjects("large", law, n, delta=1e-6, reports=reports), samples=100) == []


@pytest.mark.uncovered
@each_case(("law", "n", "reports"), LARGE[1:])
@pytest.mark.parametrize("number", ["guess", "epsilon"])
def test_a_promise_of_large_rounds_five_percent_too_good_is_always_noticed(
    law: RangeRandomizer, n: int, reports: tuple[int, ...], number: str
) -> None:
    """At a delta that no sample sees, in the number that is too small and in no other."""
    table = claims(law, n, delta=1e-6, reports=reports)
    least = 0.5 if number == "guess" else 0.0
    better = [
        replace(one, **{number: least + 0.95 * (getattr(one, number) - least)}) for one in table
    ]
    found = broken(proven_subjects("large", law, n, delta=1e-6, stated=better), samples=100)
    spans = ["epsilon" if one == 1 else f"epsilon of {one}" for one in reports]
    assert found == (spans if number == "epsilon" else ["best guess"] * (1 in reports))


@each_case(
    ("law", "point"),
    [(BIT, 0), (BIT, 4096), (Optimal(3.3217, PUBLIC), 0), (Optimal(3.3217, PUBLIC), 2048)],
)
def test_reports_follow_their_law(law: RangeRandomizer, point: int) -> None:
    """Nothing is drawn more often than the law says, and nothing that it never draws."""
    assert broken([report_law_subject("law", law, point=point)], samples=200_000) == []


@each_case("law", [BIT, Duchi(1.3858, PUBLIC), Optimal(3.3217, PUBLIC)])
def test_reports_with_five_percent_more_epsilon_leave_their_law(law: RangeRandomizer) -> None:
    """However small the claims about large rounds are, they are about this law."""
    faulty = type(law)(1.05 * law.guarantee.epsilon, PUBLIC)
    ends = (0, PUBLIC.steps)
    subjects = [report_law_subject(f"{end}", law, point=end, drawn=faulty) for end in ends]
    assert broken(subjects, samples=200_000) == ["0", f"{PUBLIC.steps}"]
    assert broken([report_subject("local", faulty, claim=law.guarantee.epsilon)]) == ["local"]
