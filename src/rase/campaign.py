"""What a fleet agreed to: the campaign, an immutable value known to everybody.

Pure Python without NumPy, because the device agent imports it. Its bytes, hash and signatures are
made in rase.wire.signed.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Final, Self

from rase.counts.registry import ESTIMATORS, SHARES, TRACKED
from rase.domain import MAX_STEPS, OTHER, Categories, Domain, Precision, Range, between_bounds
from rase.laws.registry import MECHANISMS, PROBE, mechanisms_of
from rase.privacy import MAX_EPSILON, MIN_EPSILON
from rase.promise import Claim, claim_for
from rase.validation import CampaignInvalid, Mistakes, quote_value

__all__ = [
    "KEMS",
    "MAX_DELTA",
    "MAX_LABELS",
    "MIN_DELTA",
    "MIN_SHUFFLED",
    "SHUFFLES",
    "TARGETS",
    "Campaign",
    "ShufflePlan",
]

SHUFFLES: Final = ("robust", "uniform", "mallows")
KEMS: Final = ("x25519", "x-wing")
TARGETS: Final = ("reporters", "fleet")

_MAX_CLASSES = 4
_MAX_GROUPS = 1024
_MAX_WHOLE = 2**32 - 1  # rounds and counts travel in four bytes
_MAX_DURATION_S = 366 * 86400
_MAX_CARRY = 1000
_SHUFFLE_FIELDS = ("method", "alpha", "groups")
_MAX_CLAIMS = 256
# Besides "other", whose number on the wire is 0.
MAX_LABELS: Final = 15
# A ledger counts billionths of epsilon; deltas beyond the ends are nobody's promise.
MIN_SHUFFLED: Final = 1e-9
MIN_DELTA: Final = 1e-12
MAX_DELTA: Final = 0.1
_LATER: dict[str, Any] = {
    "carry_rounds": 0,
    "probe_every": 0,
    "target": TARGETS[0],
    "shuffled_epsilon": None,
    "delta": None,
    "colluding": 0,
    "cover": True,
    "claims": [],
    "categories": [],
    "bounds": [],
    "labels": [],
}
_FIXED = ("id", "quantity", "unit", "round_s", "window", "categories", "bounds", "labels")
_NOT_IN_LABELS: Final = frozenset("+#/*")
# What numbers have and states have not.
_RANGE_FIELDS = ("low", "high", "steps")


@dataclass(frozen=True, slots=True)
class ShufflePlan:
    """Say how the shuffler hides senders.

    Args:
        method: "uniform", "mallows", or "robust" for Mallows where it protects and uniform
            elsewhere.
        alpha: The privacy loss allowed for the groups; 0 for uniform.
        groups: The names of the public groups, in the order in which a Mallows shuffle starts;
            empty for one group of all.
    """

    method: str = "uniform"
    alpha: float = 0.0
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the plan once, and list all mistakes."""
        mistakes = Mistakes()
        mistakes.choice("shuffle.method", self.method, SHUFFLES)
        mistakes.number("shuffle.alpha", self.alpha, low=0.0, high=1000.0)
        mistakes.names("shuffle.groups", self.groups, most=_MAX_GROUPS)
        if not mistakes.found:
            if self.method == "uniform" and self.alpha != 0:
                mistakes.add("shuffle.alpha", "0 for the uniform shuffle", self.alpha)
            if self.method != "uniform" and self.alpha == 0:
                mistakes.add("shuffle.alpha", f"greater than 0 for {self.method}", self.alpha)
        mistakes.raise_if_any()
        object.__setattr__(self, "alpha", _as_float(self.alpha))
        object.__setattr__(self, "groups", tuple(self.groups))

    def as_fields(self) -> dict[str, Any]:
        """Return the plan as plain values by name."""
        return {"method": self.method, "alpha": self.alpha, "groups": list(self.groups)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """Everything that devices, shuffler and fusion centre agree on, for some rounds.

    A change is a new version for later rounds, never an edit: see `check_succeeds`.

    Args:
        id: Name in addresses: lower-case letters, digits and hyphens.
        version: 1 for the first, one more for each change.
        quantity: What is measured, in words.
        unit: The unit of readings; may be empty.
        low: The smallest reading.
        high: The largest reading.
        steps: How many steps the public grid has.
        mechanism: How devices randomize: one of `rase.laws.registry.MECHANISMS`. There is no
            default: devices draw what stands here. `rase.fusion.mechanism.campaign_of` chooses one
            where a file does not.
        beta: Relative half-width of the precision asked for.
        rho: Probability with which a report is that close.
        epsilon: One to four budgets of a report, ascending; a device takes the largest its owner
            allows, and says which by its place in this tuple.
        window: The rounds over which a device's budget is counted, w.
        window_budget: The epsilon that a device may spend in any ``window`` rounds.
        round_s: The length of a round.
        upload_s: How long after a round's end its reports are sent, each at a random moment.
        grace_s: How long after a round's end the shuffler waits before it closes the round.
        k_min: The fewest reports that are ever released together.
        shuffle: How the shuffler hides senders.
        estimators: What the fusion centre computes: names out of
            `rase.counts.registry.ESTIMATORS`. ``tracked``, each round with the help of those
            before, comes with its unbiased mean.
        not_before: The first round for which this version holds.
        not_after: The last round for which it holds.
        kem: The inner envelope's key encapsulation: "x25519", or "x-wing" against quantum
            computers. One for all devices, so that the size of a report says nothing.
        carry_rounds: For how many rounds at most the reports of a small round wait for company; 0
            drops them. Rounds are then counted in blocks of one more, and a report names its block
            alone to the fusion centre: see docs/decisions/0006-carried-rounds-share-a-block.md.
        probe_every: In every so-many-th round devices report by the square wave instead of
            ``mechanism``, with the same epsilon, so that the distribution of readings and with it
            a better range can be learnt; 0 for never.
        target: Whose mean is answered, of `TARGETS`: "reporters", those who reported in the round;
            or "fleet", all enrolled devices, of whom a round's reports are a sample.
        shuffled_epsilon: The epsilon of one report towards the fusion centre and subscribers, who
            see it shuffled among those of a round; None promises nothing beyond ``epsilon``, which
            holds against everybody.
        delta: The delta of ``shuffled_epsilon``, and of each of ``claims``.
        colluding: How many reports of a round may be of devices that work with the fusion centre:
            the promise is that of ``k_min - colluding`` reports.
        cover: Whether devices send cover reports in rounds without a report. The network and the
            shuffler's intake cannot tell them from reports; its closer can, and drops them before
            it counts.
        claims: What 1, 2, … reports of one device give away to the fusion centre, all together;
            reports ascending. Nothing is promised of more reports than the last row is about.
        categories: The states that a reading may be, where it is not a number; then ``low``,
            ``high`` and ``steps`` number them. A state that is not among them counts as ``other``,
            if that is one of them.
        bounds: Where a device puts its number into one of several intervals, and reports that
            alone: the ends between them, ascending, each the least of the interval above. Their
            names are the categories.
        labels: The public kinds of devices that answers are given for, besides that of all. A
            device reports one of them if its owner has agreed; the others are ``other``.

    Raises:
        CampaignInvalid: With all mistakes.

    Example:
        >>> campaign = Campaign(
        ...     id="street-power", version=1, quantity="power", unit="W", low=0, high=3000,
        ...     mechanism="optimal", epsilon=(1,), window=24, window_budget=24, round_s=3600,
        ...     upload_s=300, grace_s=600, k_min=20, not_before=495000, not_after=499999,
        ... )
        >>> campaign.domain.step, campaign.closes_s(495000)
        (0.732421875, 1782004200)
    """

    id: str
    version: int
    quantity: str
    unit: str
    low: float
    high: float
    steps: int = 4096
    mechanism: str
    beta: float = 0.5
    rho: float = 0.9
    epsilon: tuple[float, ...]
    window: int
    window_budget: float
    round_s: int
    upload_s: int
    grace_s: int
    k_min: int
    shuffle: ShufflePlan = field(default_factory=ShufflePlan)
    estimators: tuple[str, ...] = (TRACKED,)
    not_before: int
    not_after: int
    kem: str = "x25519"
    carry_rounds: int = 0
    probe_every: int = 0
    target: str = TARGETS[0]
    shuffled_epsilon: float | None = None
    delta: float | None = None
    colluding: int = 0
    cover: bool = True
    claims: tuple[Claim, ...] = ()
    categories: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check all fields once, and list all mistakes."""
        mistakes = Mistakes()
        self._number_states(mistakes)
        self._check_words(mistakes)
        self._check_numbers(mistakes)
        if not mistakes.found:
            self._check_together(mistakes)
        mistakes.raise_if_any()
        for name in ("low", "high", "beta", "rho", "window_budget"):
            object.__setattr__(self, name, _as_float(getattr(self, name)))
        object.__setattr__(self, "epsilon", tuple(_as_float(value) for value in self.epsilon))
        object.__setattr__(self, "estimators", tuple(self.estimators))
        object.__setattr__(self, "claims", tuple(self.claims))
        object.__setattr__(self, "labels", tuple(self.labels))
        if self.shuffled_epsilon is not None and self.delta is not None:
            object.__setattr__(self, "shuffled_epsilon", _as_float(self.shuffled_epsilon))
            object.__setattr__(self, "delta", _as_float(self.delta))

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> Self:
        """Build a campaign from plain values by name, as a file or a message holds them.

        Args:
            values: As `as_fields` returns them; fields with a default may be absent.

        Raises:
            CampaignInvalid: With all mistakes; unknown and missing fields are named.
        """
        if not isinstance(values, Mapping):
            raise CampaignInvalid([f"campaign must be a table, got {quote_value(values)}."])
        known = [item.name for item in fields(cls)]
        mistakes = [f"{name} is not a field of a campaign." for name in _unknown(values, known)]
        values = _with_places(values, mistakes)
        missing = [name for name in _REQUIRED if name not in values]
        mistakes += [f"{name} is missing." for name in missing]
        given: dict[str, Any] = {name: values.get(name) for name in _REQUIRED}
        given |= {name: values[name] for name in known if name in values}
        try:
            given["shuffle"] = _shuffle_of(values.get("shuffle", {}))
        except CampaignInvalid as error:
            mistakes += error.mistakes
            given["shuffle"] = ShufflePlan()
        try:
            given["claims"] = _claims_of(values.get("claims", ()))
        except CampaignInvalid as error:
            mistakes += error.mistakes
            given["claims"] = ()
        try:
            campaign = cls(**given)
        except CampaignInvalid as error:
            # A missing field was tried as None; what that led to is no mistake of its own.
            absent = tuple(f"{name} must be " for name in missing)
            mistakes += [text for text in error.mistakes if not text.startswith(absent)]
        if mistakes:
            raise CampaignInvalid(mistakes)
        return campaign

    def as_fields(self) -> dict[str, Any]:
        """Return the campaign as plain values by name."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values["epsilon"] = list(self.epsilon)
        values["estimators"] = list(self.estimators)
        values["shuffle"] = self.shuffle.as_fields()
        values["claims"] = [list(claim.to_numbers()) for claim in self.claims]
        for name in ("categories", "bounds", "labels"):
            values[name] = list(values[name])
        if self.states is not None:
            for name in _RANGE_FIELDS:
                del values[name]
        if self.bounds:
            # They follow from the bounds.
            values["categories"] = []
        # Absent means this: campaigns without them keep the bytes, and so the hash, they had.
        for name, usual in _LATER.items():
            if values[name] == usual:
                del values[name]
        return values

    @property
    def domain(self) -> Range:
        """The public range of readings and its grid; where they are states, of their numbers."""
        return Range(self.low, self.high, self.steps)

    @property
    def states(self) -> Categories | None:
        """The public states that a reading may be; None where it is a number."""
        return Categories(self.categories) if self.categories else None

    @property
    def public(self) -> Domain:
        """What a reading may be: one of the public states, or a number of the public range."""
        return self.states or self.domain

    @property
    def precision(self) -> Precision:
        """The (beta, rho) asked for."""
        return Precision(self.beta, self.rho)

    @property
    def honest_reports(self) -> int:
        """How many reports of a round hide each other at least; promises are computed with it."""
        return self.k_min - self.colluding

    def most_reports(self, rounds: int) -> int:
        """Return how many reports a device makes in some consecutive rounds, at most.

        Each release holds one report of a device, and the window's budget pays for some. What was
        carried into the first of the rounds belongs to rounds before.
        """
        in_window = max(1, math.floor(self.window_budget / self.epsilon[0] + 1e-9))
        windows = math.ceil((rounds + self.carry_rounds) / self.window)
        return min(rounds, windows * in_window)

    def claim_over(self, rounds: int) -> Claim | None:
        """Return what a device's reports of some consecutive rounds give away to the fusion centre.

        None where nothing is promised of so many.
        """
        return claim_for(self.claims, self.most_reports(rounds))

    def label_number(self, label: str | None) -> int:
        """Return the number of a label on the wire; 0 for those that were not declared."""
        return self.labels.index(label) + 1 if label in self.labels else 0

    def label_name(self, number: int) -> str:
        """Return the label of a number on the wire."""
        return self.labels[number - 1] if 0 < number <= len(self.labels) else OTHER

    def holds_in(self, round: int) -> bool:
        """Return whether this version holds in a round."""
        return self.not_before <= round <= self.not_after

    def is_probing_in(self, round: int) -> bool:
        """Return whether devices report by the square wave in a round.

        Rounds of one block do alike, because their reports may be released together.
        """
        block = self.block_start(round) // (self.carry_rounds + 1)
        return self.probe_every > 0 and block % self.probe_every == 0

    def reported_in(self, round: int) -> "Campaign":
        """Return the campaign as devices report by it in a round: in probing rounds by the wave."""
        return replace(self, mechanism=PROBE) if self.is_probing_in(round) else self

    def round_end_s(self, round: int) -> int:
        """Return the second at which a round ends and its upload window begins."""
        return (round + 1) * self.round_s

    def upload_end_s(self, round: int) -> int:
        """Return the second at which the upload window of a round ends."""
        return self.round_end_s(round) + self.upload_s

    def closes_s(self, round: int) -> int:
        """Return the second from which the shuffler closes a round."""
        return self.round_end_s(round) + self.grace_s

    def block_start(self, round: int) -> int:
        """Return the first round of a round's block, which stands in its reports; often itself."""
        return round - (round - self.not_before) % (self.carry_rounds + 1)

    def block_end(self, round: int) -> int:
        """Return the last round of a round's block: no report waits longer for company."""
        return min(self.block_start(round) + self.carry_rounds, self.not_after)

    def check_succeeds(self, previous: "Campaign", *, from_round: int) -> None:
        """Refuse to follow a campaign unless this is its next version, for later rounds.

        What was measured, its unit, round length and window stay, so that estimates can be compared
        and ledgers go on counting; the budget of a window, k_min, how long reports wait and the key
        encapsulation may only get stronger, and so may the promise towards the fusion centre. All
        else may change, each round being read by the version that held in it: a device refuses a
        range beyond its owner's limits, and a higher epsilon or a weaker shuffle than its owner
        agreed to.

        Args:
            previous: The version that holds now.
            from_round: The first round in which the new version may hold: a later one than the
                present round.

        Raises:
            CampaignInvalid: With everything that may not change so.
        """
        mistakes = [
            f"{name} must stay {getattr(previous, name)!r} in a new version, "
            f"got {getattr(self, name)!r}."
            for name in _FIXED
            if getattr(self, name) != getattr(previous, name)
        ]
        first = max(from_round, previous.not_before + 1)
        for name, is_met, condition in (
            ("version", self.version == previous.version + 1, f"{previous.version + 1}"),
            ("not_before", self.not_before >= first, f"at least {first}"),
            (
                "window_budget",
                self.window_budget <= previous.window_budget,
                f"at most {previous.window_budget:g}, or owners would be promised less",
            ),
            (
                "k_min",
                self.k_min >= previous.k_min,
                f"at least {previous.k_min}, or owners would be promised less",
            ),
            (
                "carry_rounds",
                self.carry_rounds <= previous.carry_rounds,
                f"at most {previous.carry_rounds}, or owners would be promised less",
            ),
            (
                "kem",
                KEMS.index(self.kem) >= KEMS.index(previous.kem),
                f"{previous.kem}, or owners would be promised less",
            ),
        ):
            if not is_met:
                mistakes.append(f"{name} must be {condition}, got {getattr(self, name)!r}.")
        mistakes += self._weaker_promises(previous)
        if mistakes:
            raise CampaignInvalid(mistakes)

    def _weaker_promises(self, previous: "Campaign") -> Iterator[str]:
        """Yield where this version promises less towards the fusion centre than another."""
        for name in ("shuffled_epsilon", "delta"):
            most, now = getattr(previous, name), getattr(self, name)
            if most is not None and (now is None or now > most):
                yield (
                    f"{name} must be at most {most:g}, or owners would be promised less, got {now}."
                )
        if previous.shuffled_epsilon is not None and self.colluding < previous.colluding:
            yield (
                f"colluding must be at least {previous.colluding}, or owners would be promised "
                f"less, got {self.colluding}."
            )
        if previous.cover and not self.cover:
            yield (
                "cover must stay true in a new version: without it the network sees who reports."
            )

    def _check_words(self, mistakes: Mistakes) -> None:
        mistakes.identifier("id", self.id)
        mistakes.text("quantity", self.quantity, least=1)
        mistakes.text("unit", self.unit, least=0)
        is_number = not (self.categories or self.bounds)
        known = MECHANISMS if is_number else mechanisms_of(Categories)
        mistakes.choice("mechanism", self.mechanism, known)
        mistakes.choice("kem", self.kem, KEMS)
        mistakes.choice("target", self.target, TARGETS)
        if not isinstance(self.cover, bool):
            mistakes.add("cover", "true or false", self.cover)
        if not isinstance(self.shuffle, ShufflePlan):
            mistakes.add("shuffle", "a ShufflePlan", self.shuffle)
        if mistakes.names("estimators", self.estimators, least=1, most=len(ESTIMATORS)):
            for name in self.estimators:
                mistakes.choice("estimators", name, ESTIMATORS if is_number else (SHARES,))
        if mistakes.names("labels", self.labels, most=MAX_LABELS):
            for label in self.labels:
                if label == OTHER:
                    mistakes.add("labels", f"without {OTHER!r}, which is always there", label)
                if _NOT_IN_LABELS.intersection(label) or label != label.strip():
                    # They stand in MQTT topics.
                    mistakes.add("labels", "names without blank ends and + # / *", label)

    def _number_states(self, mistakes: Mistakes) -> None:
        """Give states their numbers, and shares as their estimator."""
        if not (self.categories or self.bounds):
            return
        try:
            if self.bounds:
                names = between_bounds(self.bounds)
                if self.categories and tuple(self.categories) != names:
                    raise ValueError("categories must be absent where there are bounds.")
                object.__setattr__(self, "bounds", tuple(map(_as_float, self.bounds)))
                object.__setattr__(self, "categories", names)
            states = Categories(self.categories)
        except (TypeError, ValueError) as error:
            mistakes.found.append(str(error))
            object.__setattr__(self, "estimators", (SHARES,))
            return
        object.__setattr__(self, "categories", states.names)
        for name, number in zip(_RANGE_FIELDS, (0.0, states.steps, states.steps), strict=True):
            object.__setattr__(self, name, number)
        if tuple(self.estimators) == (TRACKED,):
            object.__setattr__(self, "estimators", (SHARES,))
        for name, value, usual in (
            ("probe_every", self.probe_every, 0),
            ("target", self.target, TARGETS[0]),
        ):
            if value != usual:
                mistakes.add(name, f"{usual} where readings are states", value)

    def _check_numbers(self, mistakes: Mistakes) -> None:
        for name, most in (
            ("version", _MAX_WHOLE),
            ("window", _MAX_WHOLE),
            ("round_s", _MAX_DURATION_S),
            ("upload_s", _MAX_DURATION_S),
            ("grace_s", _MAX_DURATION_S),
        ):
            mistakes.whole(name, getattr(self, name), low=1, high=most)
        mistakes.whole("k_min", self.k_min, low=2, high=_MAX_WHOLE)
        mistakes.whole("colluding", self.colluding, low=0, high=_MAX_WHOLE)
        if self.shuffled_epsilon is not None:
            mistakes.number(
                "shuffled_epsilon", self.shuffled_epsilon, low=MIN_SHUFFLED, high=MAX_EPSILON
            )
            mistakes.number("delta", self.delta, low=MIN_DELTA, high=MAX_DELTA)
        mistakes.whole("carry_rounds", self.carry_rounds, low=0, high=_MAX_CARRY)
        for name in ("not_before", "not_after"):
            mistakes.whole(name, getattr(self, name), low=0, high=_MAX_WHOLE)
        for name in ("low", "high"):
            mistakes.number(name, getattr(self, name), low=-1e300, high=1e300)
        mistakes.whole("steps", self.steps, low=1, high=MAX_STEPS)
        mistakes.whole("probe_every", self.probe_every, low=0, high=_MAX_WHOLE)
        for name in ("beta", "rho"):
            mistakes.number(name, getattr(self, name), low=0.0, high=1.0)
        mistakes.number("window_budget", self.window_budget, low=MIN_EPSILON, high=1e9)
        mistakes.budgets(
            "epsilon", self.epsilon, most=_MAX_CLASSES, low=MIN_EPSILON, high=MAX_EPSILON
        )

    def _check_together(self, mistakes: Mistakes) -> None:
        try:
            Range(self.low, self.high, self.steps)
        except ValueError as error:
            mistakes.found.append(str(error))
        if list(self.epsilon) != sorted(set(self.epsilon)):
            mistakes.add("epsilon", "ascending budgets that differ", self.epsilon)
        if self.window_budget < max(self.epsilon):
            mistakes.add(
                "window_budget",
                f"at least the largest epsilon, {max(self.epsilon):g}",
                self.window_budget,
            )
        if self.upload_s > self.grace_s:
            mistakes.add("upload_s", f"at most grace_s, {self.grace_s}", self.upload_s)
        if self.not_after < self.not_before:
            mistakes.add("not_after", f"at least not_before, {self.not_before}", self.not_after)
        if self.labels:
            for name, is_met, condition, got in (
                ("epsilon", len(self.epsilon) == 1, "one budget", self.epsilon),
                ("shuffle", self.shuffle.method == "uniform", "uniform", self.shuffle.method),
                ("probe_every", self.probe_every == 0, "0", self.probe_every),
            ):
                if not is_met:
                    mistakes.add(name, f"{condition}, for answers by label", got)
        if self.shuffled_epsilon is not None:
            self._check_promise(mistakes)
        else:
            for name in ("delta", "colluding", "claims"):
                if getattr(self, name):
                    mistakes.add(name, "absent without shuffled_epsilon", getattr(self, name))

    def _check_promise(self, mistakes: Mistakes) -> None:
        """Check that the fields around a shuffled promise allow to keep it."""
        for name, is_met, condition in (
            ("epsilon", len(self.epsilon) == 1, "one budget: classes hide only their own"),
            ("shuffle", self.shuffle.method == "uniform", "uniform"),
            ("probe_every", self.probe_every == 0, "0: probes have another law"),
            ("colluding", self.honest_reports >= 2, f"at most k_min - 2, {self.k_min - 2}"),
            ("claims", 1 <= len(self.claims) <= _MAX_CLAIMS, f"1 to {_MAX_CLAIMS} rows"),
        ):
            if not is_met:
                value = self.shuffle.method if name == "shuffle" else getattr(self, name)
                mistakes.add(name, f"{condition}, for a shuffled promise", value)
        if not mistakes.found:
            self._check_claims(mistakes)

    def _check_claims(self, mistakes: Mistakes) -> None:
        counts = [claim.reports for claim in self.claims]
        if counts[0] != 1 or counts != sorted(set(counts)):
            mistakes.add("claims", "of 1 report and then more and more", counts)
        if self.claims[0].epsilon > self.shuffled_epsilon:  # type: ignore[operator]
            mistakes.add(
                "claims",
                f"at most shuffled_epsilon, {self.shuffled_epsilon:g}, for one report",
                self.claims[0].epsilon,
            )
        for claim in self.claims:
            if claim.delta != self.delta:
                mistakes.add("claims", f"at delta, {self.delta:g}", claim.delta)
            local = claim.reports * self.epsilon[0]
            if not math.isclose(claim.local_epsilon, local, rel_tol=1e-9):
                mistakes.add(
                    "claims", f"of reports that spend {local:g} together", claim.local_epsilon
                )


_REQUIRED = tuple(
    item.name
    for item in fields(Campaign)
    if item.default is MISSING and item.default_factory is MISSING
)


def _with_places(values: Mapping[str, Any], mistakes: list[str]) -> Mapping[str, Any]:
    """Return fields of a campaign of states with the numbers of the states, which it must not have.

    What cannot be numbered is left for the campaign to refuse.
    """
    if not (values.get("categories") or values.get("bounds")):
        return values
    mistakes += [
        f"{name} must be absent where readings are states, got {quote_value(values[name])}."
        for name in _RANGE_FIELDS
        if name in values
    ]
    return {**values, "low": 0, "high": 1, "steps": 1}


def _shuffle_of(value: object) -> ShufflePlan:
    if isinstance(value, ShufflePlan):
        return value
    if not isinstance(value, Mapping):
        raise CampaignInvalid([f"shuffle must be a table, got {quote_value(value)}."])
    unknown = _unknown(value, _SHUFFLE_FIELDS)
    if unknown:
        raise CampaignInvalid(f"shuffle.{name} is not a field of a campaign." for name in unknown)
    return ShufflePlan(**value)


def _claims_of(value: object) -> tuple[Claim, ...]:
    if not isinstance(value, tuple | list):
        raise CampaignInvalid([f"claims must be a list of rows, got {quote_value(value)}."])
    for row in value:
        if not isinstance(row, Claim | tuple | list):
            raise CampaignInvalid([f"claims must be a list of rows, got {quote_value(row)}."])
    try:
        return tuple(row if isinstance(row, Claim) else Claim.from_numbers(row) for row in value)
    except (TypeError, ValueError) as error:
        raise CampaignInvalid([f"claims: {error}"]) from None


def _unknown(values: Mapping[Any, Any], known: Iterable[str]) -> list[str]:
    return sorted(quote_value(name).strip("'") for name in values if name not in known)


def _as_float(value: float) -> float:
    # Adding zero turns -0.0 into 0.0: equal campaigns must have equal bytes.
    return float(value) + 0.0
