"""What simulated worlds start from: the campaign, the keys of both servers, the policy."""

from dataclasses import dataclass, field, replace
from functools import cache

from tests.registering import REGISTRAR_KEY

from rase.campaign import Campaign, ShufflePlan
from rase.shuffler.documents import Policy
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.messages import INNER_SIZES, PART_BYTES
from rase.wire.signed import PinnedKeys
from rase.wire.suites import CHACHA20_POLY1305, KEM_NUMBERS

__all__ = [
    "CAMPAIGN",
    "FIRST",
    "INNER_KEY",
    "MOST_OUTER",
    "OUTER_KEYS",
    "PINNED",
    "POLICY",
    "ROUND_S",
    "SIGNERS",
    "Setting",
    "keyset_of",
]

ROUND_S, FIRST = 36_000, 1_000
CAMPAIGN = Campaign(
    id="street-power",
    version=1,
    quantity="power",
    unit="W",
    low=0,
    high=3000,
    steps=300,
    mechanism="budget-aware",
    epsilon=(1.0,),
    window=10,
    window_budget=9.0,
    round_s=ROUND_S,
    upload_s=600,
    grace_s=1800,
    k_min=3,
    estimators=("tracked", "unbiased_mean", "sample_mean", "median"),
    not_before=FIRST,
    not_after=10**6,
)
SIGNERS = {
    Role.FUSION: SigningKey(role=Role.FUSION, secret=bytes([1]) * 32),
    Role.SHUFFLER: SigningKey(role=Role.SHUFFLER, secret=bytes([2]) * 32),
}
PINNED = PinnedKeys(
    SIGNERS[Role.FUSION].public_bytes(), SIGNERS[Role.SHUFFLER].public_bytes(), REGISTRAR_KEY
)
POLICY = Policy(max_epsilon=1.0, max_window_budget=10.0, min_k_min=2, max_carry_rounds=5)
# The first number of the fusion centre's keys.
_INNER = 7
_FOR_EVER_S = 2**39
# A closer that starts tells of all its keys, so each costs a little in every death.
MOST_OUTER = 20


@dataclass(frozen=True, slots=True)
class Setting:
    """Say in what a world differs from the plainest one.

    Args:
        kem: The key encapsulation of inner envelopes.
        aead: The cipher of both envelopes.
        shuffle: How the shuffler hides senders.
        groups: The public groups that devices enrol in, in turn.
        carry_rounds: How long reports of too small a round wait for company.
        turns: In every how many-th round a device has a reading.
        sends_cover: Whether devices without a report send a cover report.
        part_reports: How many reports are forwarded together, if not as many as ever come.
    """

    kem: str = "x25519"
    aead: int = CHACHA20_POLY1305
    shuffle: ShufflePlan = field(default_factory=ShufflePlan)
    groups: tuple[str, ...] = ("",)
    carry_rounds: int = 0
    turns: int = 1
    sends_cover: bool = True
    part_reports: int = 0

    def has_turn(self, device: int, round: int) -> bool:
        """Return whether a device has a reading in a round."""
        return (device + round) % self.turns == 0

    @property
    def part_bytes(self) -> int:
        """How long a batch may be before it is forwarded in parts."""
        return self.part_reports * INNER_SIZES[KEM_NUMBERS[self.kem]] or PART_BYTES

    @property
    def campaign(self) -> Campaign:
        """The first version."""
        return replace(CAMPAIGN, kem=self.kem, shuffle=self.shuffle, carry_rounds=self.carry_rounds)

    @property
    def outer_keys(self) -> tuple[OpeningKey, ...]:
        """All keys that the shuffler will ever have, by their numbers."""
        return _outer_keys(self.aead)

    @property
    def inner_keys(self) -> tuple[OpeningKey, ...]:
        """All keys that the fusion centre will ever have."""
        return _inner_keys(KEM_NUMBERS[self.kem], self.aead)

    def keyset(self, version: int, *, outer: int = 1, switches_s: tuple[int, ...] = ()) -> Keyset:
        """Return a keyset.

        Args:
            version: Its version.
            outer: The number of the shuffler's key.
            switches_s: When the fusion centre's keys follow each other.
        """
        begins, ends = (0, *switches_s), (*switches_s, _FOR_EVER_S)
        times = list(zip(self.inner_keys, begins, ends, strict=False))
        configs = [self.outer_keys[outer].config(not_before_s=0, not_after_s=_FOR_EVER_S)]
        # The one that is in use, the one before it and the one after it are enough for devices.
        configs += [key.config(not_before_s=a, not_after_s=b) for key, a, b in times[-3:]]
        return Keyset(version=version, cache_s=43_200, configs=tuple(configs))


@cache
def _outer_keys(aead: int) -> tuple[OpeningKey, ...]:
    return tuple(
        OpeningKey(role=Role.SHUFFLER, id=number, aead=aead, secret=bytes([100 + number]) * 32)
        for number in range(MOST_OUTER)
    )


@cache
def _inner_keys(kem: int, aead: int) -> tuple[OpeningKey, ...]:
    return tuple(
        OpeningKey(role=Role.FUSION, id=number, kem=kem, aead=aead, secret=bytes([number]) * 32)
        for number in range(_INNER, _INNER + 20)
    )


OUTER_KEYS = Setting().outer_keys
INNER_KEY = Setting().inner_keys[0]


def keyset_of(version: int) -> Keyset:
    """Return a keyset of the plainest world."""
    return Setting().keyset(version, outer=version)
