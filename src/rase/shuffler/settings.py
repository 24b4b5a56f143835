"""What the shuffler's operator decides: the section ``[shuffler]`` of rase.toml."""

from pydantic import Field

from rase.errors import ConfigurationError
from rase.service.broker_settings import BrokerSettings
from rase.service.connections import ConnectionSettings
from rase.service.key_settings import (
    AddressSetting,
    PublicKeySetting,
    public_key_bytes,
    read_signing_key,
)
from rase.service.keyring import PUBLIC_FILE, read_public_keys
from rase.service.server_settings import ServerSettings
from rase.service.settings import PathSetting, Settings
from rase.shuffler.documents import Policy
from rase.shuffler.enrolment import DEVICES_PER_OWNER
from rase.wire.keys import Role, SigningKey
from rase.wire.signed import PinnedKeys

__all__ = [
    "LimitSettings",
    "PolicySettings",
    "ShufflerSettings",
    "own_signing_key",
    "pinned_keys",
]


class PolicySettings(Settings):
    """What the operator countersigns; there are no defaults for the limits owners rely on.

    Args:
        max_epsilon: The largest epsilon of a report.
        max_window_budget: The largest epsilon of a device in a window.
        min_k_min: The least k_min.
        max_cache_s: The longest time that devices may keep a keyset.
        max_carry_rounds: The most rounds that reports of a round below k_min may wait for company;
            0 agrees to campaigns that drop them alone.
        max_shuffled_epsilon: The largest epsilon of a promise towards the fusion centre; None for
            any. Campaigns without such a promise are not asked for one.
        max_delta: The largest delta of such a promise.
    """

    max_epsilon: float = Field(gt=0)
    max_window_budget: float = Field(gt=0)
    min_k_min: int = Field(ge=2)
    max_cache_s: int = Field(default=7 * 86400, ge=1)
    max_carry_rounds: int = Field(default=0, ge=0)
    max_shuffled_epsilon: float | None = Field(default=None, gt=0)
    max_delta: float = Field(default=1e-5, gt=0, lt=1)

    def policy(self) -> Policy:
        """Return the policy as a value."""
        return Policy(**self.model_dump())


class LimitSettings(ConnectionSettings):
    """How much is taken in; what it does not name here is that of every server.

    Args:
        reports_per_minute: The most requests of one device.
        enrolments_per_minute: The most wrong tries to enrol from one address, and the most tries
            with one right token.
        devices_per_owner: The most devices of one owner, where tokens were made for owners.
        gateway_reports: The most reports of one request of a gateway.
        max_waiting: How many reports may wait for the disk; more are asked to come back.
        max_wait_s: How many seconds a report may wait for its commit to begin.
        max_group: The most reports of one commit.
    """

    reports_per_minute: int = Field(default=60, ge=1)
    enrolments_per_minute: int = Field(default=60, ge=1)
    devices_per_owner: int = Field(default=DEVICES_PER_OWNER, ge=1)
    gateway_reports: int = Field(default=500, ge=1, le=10_000)
    max_waiting: int = Field(default=2000, ge=1)
    max_wait_s: float = Field(default=5.0, gt=0)
    max_group: int = Field(default=1000, ge=1)


class ShufflerSettings(ServerSettings):
    """All settings of a shuffler; only the closer reads its private keys.

    Args:
        name: The shuffler's name in manifests.
        port: The port; 0 for any free one.
        public_keys_file: Its public keys; all that the intake knows of them.
        fusion_key: The fusion centre's public Ed25519 key, in hex or base64url.
        fusion_url: Where batches go.
        registrar_key: The registrar's public Ed25519 key: only devices that it certified may enrol.
        lease_s: How long one closer may take for a round before another tries.
        workers: How many processes open many envelopes; fewer than 2 for none.
        policy: What the operator countersigns.
        limits: How much is taken in.
        closer_metrics_port: Where the closer serves ``/metrics``, on this machine; None for not.
        mqtt: The broker through which reports come as well; None for none.
    """

    name: str = Field(default="shuffler", min_length=1, max_length=64)
    port: int = Field(default=8701, ge=0, le=65535)
    public_keys_file: PathSetting = Field(default=PUBLIC_FILE, validate_default=True)
    fusion_key: PublicKeySetting
    fusion_url: AddressSetting
    registrar_key: PublicKeySetting
    lease_s: int = Field(default=60, ge=1)
    workers: int | None = Field(default=1, ge=0, le=256)
    policy: PolicySettings
    limits: LimitSettings = LimitSettings()
    closer_metrics_port: int | None = Field(default=None, ge=1, le=65535)
    mqtt: BrokerSettings | None = None


def pinned_keys(settings: ShufflerSettings) -> PinnedKeys:
    """Return the public signing keys of both servers, without a look at a private one.

    Raises:
        ConfigurationError: If the shuffler's public keys cannot be read or are another server's,
            or both servers have the same.
    """
    public = read_public_keys(settings.public_keys_file)
    if public.role is not Role.SHUFFLER:
        raise ConfigurationError(
            [f"shuffler.public_keys_file: {settings.public_keys_file} is of the {public.role}."]
        )
    try:
        return PinnedKeys(
            public_key_bytes(settings.fusion_key),
            public.signing_key,
            public_key_bytes(settings.registrar_key),
        )
    except ValueError as error:
        raise ConfigurationError(
            [f"shuffler.fusion_key, shuffler.registrar_key: {error}"]
        ) from None


def own_signing_key(settings: ShufflerSettings) -> tuple[SigningKey, PinnedKeys]:
    """Return the shuffler's signing key and the public ones of both servers.

    Raises:
        ConfigurationError: If a key file cannot be read, or the public keys belong to another key.
    """
    key = read_signing_key(settings.signing_key_file, role=Role.SHUFFLER)
    pinned = pinned_keys(settings)
    if key.public_bytes() != pinned.shuffler:
        mistake = (
            f"shuffler.public_keys_file: {settings.public_keys_file} must hold the public side of "
            f"{settings.signing_key_file}; the intake would refuse what the closer signs."
        )
        raise ConfigurationError([mistake])
    return key, pinned
