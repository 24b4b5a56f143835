"""What is the same in all simulated worlds: the campaign, the keys of both servers, the policy."""

from rase.campaign import Campaign
from rase.shuffler.documents import Policy
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.signed import PinnedKeys

__all__ = [
    "CAMPAIGN",
    "FIRST",
    "INNER_KEY",
    "OUTER_KEYS",
    "PINNED",
    "POLICY",
    "ROUND_S",
    "SIGNERS",
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
    epsilon=(1.0,),
    window=10,
    window_budget=9.0,
    round_s=ROUND_S,
    upload_s=600,
    grace_s=1800,
    k_min=3,
    estimators=("unbiased_mean", "sample_mean", "median"),
    not_before=FIRST,
    not_after=10**6,
)
SIGNERS = {
    Role.FUSION: SigningKey(role=Role.FUSION, secret=bytes([1]) * 32),
    Role.SHUFFLER: SigningKey(role=Role.SHUFFLER, secret=bytes([2]) * 32),
}
PINNED = PinnedKeys(SIGNERS[Role.FUSION].public_bytes(), SIGNERS[Role.SHUFFLER].public_bytes())
OUTER_KEYS = [
    OpeningKey(role=Role.SHUFFLER, id=number, secret=bytes([100 + number]) * 32)
    for number in range(100)
]
INNER_KEY = OpeningKey(role=Role.FUSION, id=7, secret=bytes([7]) * 32)
POLICY = Policy(max_epsilon=1.0, max_window_budget=10.0, min_k_min=2)


def keyset_of(version: int) -> Keyset:
    """Return a keyset: the fusion centre's key stays, the shuffler's is that of the version."""
    keys = (OUTER_KEYS[version], INNER_KEY)
    configs = tuple(key.config(not_before_s=0, not_after_s=2**39) for key in keys)
    return Keyset(version=version, cache_s=86_400, configs=configs)
