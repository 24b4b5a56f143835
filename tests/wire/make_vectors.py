"""Write the test vectors of the wire format: run it after a deliberate change of bytes.

python tests/wire/make_vectors.py. Everything is fixed, the ephemeral keys too, so a second run
writes the same files. hpke.json is not made here: it holds published vectors of HPKE itself.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from rase.campaign import Campaign, ShufflePlan
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.messages import CONTENT_SIZE, Batch, BatchManifest, Content, batch_id
from rase.wire.pure import seal_report
from rase.wire.signed import (
    SignedCampaign,
    SignedKeyset,
    SignedManifest,
    campaign_bytes,
    campaign_hash,
    signature_of,
)
from rase.wire.suites import AES_128_GCM, X_WING

FOLDER = Path(__file__).parent / "vectors"

CAMPAIGN = Campaign(
    id="street-power",
    version=3,
    quantity="power",
    unit="W",
    low=0,
    high=3000,
    steps=4096,
    mechanism="budget-aware",
    beta=0.5,
    rho=0.9,
    epsilon=(0.5, 1, 2, 4),
    window=24,
    window_budget=24,
    round_s=3600,
    upload_s=300,
    grace_s=600,
    k_min=20,
    shuffle=ShufflePlan("robust", 30, ("north", "south", "Straße 7")),
    estimators=("unbiased_mean", "median"),
    not_before=495000,
    not_after=499999,
)
SIGNERS = {
    Role.FUSION: SigningKey(role=Role.FUSION, secret=bytes(range(32))),
    Role.SHUFFLER: SigningKey(role=Role.SHUFFLER, secret=bytes(range(32, 64))),
}
OPENERS = {
    "shuffler": OpeningKey(role=Role.SHUFFLER, id=7, secret=bytes(range(64, 96))),
    "fusion": OpeningKey(role=Role.FUSION, id=9, secret=bytes(range(96, 128))),
    "fusion-aes": OpeningKey(
        role=Role.FUSION, id=10, aead=AES_128_GCM, secret=bytes(range(128, 160))
    ),
    "fusion-x-wing": OpeningKey(role=Role.FUSION, id=11, kem=X_WING, secret=bytes(range(160, 192))),
}
KEYSET = Keyset(
    version=5,
    cache_s=3600,
    configs=tuple(
        key.config(not_before_s=1_780_000_000, not_after_s=1_800_000_000)
        for key in OPENERS.values()
    ),
)
# Blocks of four rounds: the report of any of 495120 to 495123 names 495120 to the fusion centre.
CARRYING = replace(CAMPAIGN, carry_rounds=3)
CONTENTS = {
    "a place in the range": Content(495123, 2048, 1),
    "the lower end": Content(495123, 0),
    "a place below the range": Content(495123, -1717, 3),
    "a place above the range": Content(495123, 5000, 2),
    "the smallest place": Content(495123, -(2**63)),
    "the largest place": Content(495123, 2**63 - 1),
    "a cover report": None,
    "the last round": Content(2**32 - 1, 1),
}


def main() -> None:
    """Write all files."""
    for name, document in documents().items():
        text = json.dumps(document, indent=1, ensure_ascii=False)
        (FOLDER / name).write_text(text + "\n", encoding="utf-8")


def documents() -> dict[str, Any]:
    """Return what each file holds."""
    reports = [report(number, name) for number, name in enumerate(CONTENTS)]
    return {
        "campaign.json": campaign_document(),
        "keyset.json": keyset_document(),
        "report.json": {
            "version": 2,
            "campaign_hash": campaign_hash(CAMPAIGN).hex(),
            "shuffler_key": private("shuffler"),
            "fusion_key": private("fusion"),
            "reports": reports,
        },
        "batch.json": batch_document(reports),
        "carry.json": carry_document(),
    }


def campaign_document() -> dict[str, Any]:
    """Return the campaign's bytes, hash and signatures."""
    signatures = {role: signature_of(CAMPAIGN, key) for role, key in SIGNERS.items()}
    signed = SignedCampaign(CAMPAIGN, signatures[Role.FUSION], signatures[Role.SHUFFLER])
    return {
        "version": 1,
        "pinned": pinned(),
        "fields": CAMPAIGN.as_fields(),
        "body": campaign_bytes(CAMPAIGN).hex(),
        "hash": campaign_hash(CAMPAIGN).hex(),
        "signed": signed.to_bytes().hex(),
    }


def keyset_document() -> dict[str, Any]:
    """Return the keyset's bytes and signatures."""
    signatures = {role: signature_of(KEYSET, key) for role, key in SIGNERS.items()}
    signed = SignedKeyset(KEYSET, signatures[Role.FUSION], signatures[Role.SHUFFLER])
    return {
        "version": 1,
        "pinned": pinned(),
        "body": KEYSET.to_bytes().hex(),
        "signed": signed.to_bytes().hex(),
    }


def report(number: int, name: str) -> dict[str, Any]:
    """Return one report with everything it was made from."""
    content = CONTENTS[name]
    shown = content or Content(495123, 0)
    label = number if content else 0
    entropy = bytes((17 * number + place) % 256 for place in range(64))
    config = {config.id: config for config in KEYSET.configs}
    sealed = seal_report(
        shown.round,
        shown.place,
        epsilon_class=shown.epsilon_class,
        is_cover=content is None,
        campaign_hash=campaign_hash(CAMPAIGN),
        shuffler_id=7,
        shuffler_key=config[7].public_key,
        fusion_id=9,
        fusion_key=config[9].public_key,
        keyset=KEYSET.version,
        entropy=entropy,
        label=label,
        token=b"" if content is None else content.token,
    )
    return {
        "name": name,
        "round": shown.round,
        "place": shown.place,
        "epsilon_class": shown.epsilon_class,
        "is_cover": content is None,
        "label": label,
        "entropy": entropy.hex(),
        "content": (bytes(CONTENT_SIZE) if content is None else content.to_bytes()).hex(),
        "report": sealed.hex(),
    }


def batch_document(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a batch of made-up envelopes and its signed manifest."""
    made_up = tuple(bytes([number]) * 368 for number in range(len(reports)))
    body = Batch(campaign_hash(CAMPAIGN), 495123, 9, made_up).to_bytes()
    manifest = BatchManifest(
        batch_id=batch_id(body),
        shuffler="shuffler-1",
        n=len(made_up),
        k_min=2,
        method="mallows",
        theta=0.125,
        alpha=30,
        real_loss=60,
        attacker_success=0.25,
    )
    signed = SignedManifest(manifest, signature_of(manifest, SIGNERS[Role.SHUFFLER]))
    return {
        "version": 1,
        "pinned": pinned(),
        "body": body.hex(),
        "batch_id": batch_id(body).hex(),
        "manifest": manifest.to_bytes().hex(),
        "signed_manifest": signed.to_bytes().hex(),
    }


def pinned() -> dict[str, str]:
    """Return the public signing keys."""
    return {str(role): key.public_bytes().hex() for role, key in SIGNERS.items()}


def carry_document() -> dict[str, Any]:
    """Return a campaign that carries rounds, and a report of each round of one block."""
    config = {config.id: config for config in KEYSET.configs}
    rounds = []
    for number, round in enumerate(range(495120, 495124)):
        entropy = bytes((31 * number + place) % 256 for place in range(64))
        sealed = seal_report(
            round,
            2048,
            epsilon_class=1,
            is_cover=False,
            campaign_hash=campaign_hash(CARRYING),
            shuffler_id=7,
            shuffler_key=config[7].public_key,
            fusion_id=9,
            fusion_key=config[9].public_key,
            keyset=KEYSET.version,
            entropy=entropy,
            block_start=CARRYING.block_start(round),
        )
        rounds.append({"round": round, "entropy": entropy.hex(), "report": sealed.hex()})
    return {
        "version": 1,
        "fields": CARRYING.as_fields(),
        "body": campaign_bytes(CARRYING).hex(),
        "hash": campaign_hash(CARRYING).hex(),
        "content": Content(CARRYING.block_start(495123), 2048, 1).to_bytes().hex(),
        "reports": rounds,
    }


def private(name: str) -> dict[str, Any]:
    """Return a private key that everybody may know, because it is used for nothing else."""
    key = OPENERS[name]
    return {"id": key.id, "kem": key.kem, "aead": key.aead, "secret": key.secret.hex()}


if __name__ == "__main__":
    main()
