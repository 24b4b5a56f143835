"""How near is opening a batch to bare decryption, and what does the rest of a round cost?

Prints ratios of CPU time taken in turn in one run, so that other work on the machine does not
count. Limits: opening at least 0.85 of bare Suite.decrypt; a round at most 1.3 of it.

Run from the project's folder: python benchmarks/fusion_opening.py [reports]
"""

import os
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fusion.conftest import CAMPAIGN, KEYS, ROUND, made_centre, parcel, reports

from rase.fusion.opening import BatchOpener, Opened
from rase.wire.inner import replay_tag
from rase.wire.messages import Batch, inner_info
from rase.wire.signed import campaign_hash
from rase.wire.suites import private_key, suite

TRIALS = 9


class OpenedAlready:
    """Stand for the opening, so that only the rest of a round is timed."""

    def open(self, batch: Batch, *, class_count: int) -> Opened:
        """Return made-up reports."""
        n = len(batch.inner)
        return Opened(
            places=np.arange(n) % CAMPAIGN.steps,
            classes=np.zeros(n, np.uint8),
            is_report=np.ones(n, np.bool_),
            is_cover=np.zeros(n, np.bool_),
            tags=tuple(replay_tag(envelope) for envelope in batch.inner),
        )


def main(count: int) -> None:
    """Print the ratios."""
    key, ch = KEYS[7], campaign_hash(CAMPAIGN)
    inner = reports([5] * 2000)
    hpke, secret = suite(key.kem, key.aead), private_key(key.kem, key.secret)
    info = inner_info(ch, ROUND)
    opener = BatchOpener([key], processes=0)
    batch = Batch(ch, ROUND, 7, tuple(inner))
    opener.open(batch, class_count=1)
    ratios, bare_s = [], []
    for _ in range(TRIALS):
        start = time.process_time()
        for envelope in inner:
            hpke.decrypt(envelope, secret, info)
        middle = time.process_time()
        opener.open(batch, class_count=1)
        ratios.append((middle - start) / (time.process_time() - middle))
        bare_s.append((middle - start) / len(inner))
    opening = statistics.median(ratios)
    print(f"opening / bare decrypt         {opening:.2f}  (limit 0.85)")
    bare = count * min(bare_s)
    envelopes = [os.urandom(80) for _ in range(count)]
    for estimators in (("unbiased_mean",), CAMPAIGN.estimators):
        with (
            tempfile.TemporaryDirectory() as folder,
            made_centre(Path(folder) / "fusion.sqlite") as centre,
        ):
            campaign = replace(CAMPAIGN, id="bench", estimators=estimators)
            centre.publisher.publish(campaign)
            centre.opener = OpenedAlready()  # type: ignore[assignment]
            centre.__post_init__()
            sent = parcel(envelopes, campaign=campaign)
            start = time.process_time()
            centre.intake.receive(sent.id, sent.payload)
            centre.rounds.tick()
            rest = time.process_time() - start
        total = (bare / opening + rest) / bare
        print(
            f"round of {count}, {len(estimators)} estimators  {total:.2f} of its bare decryptions"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
