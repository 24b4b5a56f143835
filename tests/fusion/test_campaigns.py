"""Campaigns and keysets are published once both servers signed them."""

from dataclasses import replace

import httpx
import pytest
from tests.fusion.conftest import (
    CAMPAIGN,
    FUSION_SIGNER,
    PINNED,
    ROUND,
    SHUFFLER_SIGNER,
    Centre,
    Signs,
    keyset,
)

from rase.campaign import Campaign
from rase.errors import BadSignature, ConfigurationError, RaseError
from rase.fusion.campaigns import (
    Publisher,
    campaign_in_round,
    current_campaign,
    current_keyset,
    known_campaigns,
    next_version,
)
from rase.fusion.countersign import HttpCountersigner, NotCountersigned
from rase.fusion.mechanism import effect_of
from rase.validation import CampaignInvalid
from rase.wire import cbor
from rase.wire.keys import Keyset
from rase.wire.problems import PROBLEM_TYPES, Problem
from rase.wire.signed import SignedCampaign, SignedKeyset, campaign_from_bytes, signature_of


def published_by(centre: Centre, shuffler: object) -> Publisher:
    """Return a publisher that asks another shuffler."""
    return Publisher(
        centre.database,
        centre.clock,
        key=FUSION_SIGNER,
        pinned=PINNED,
        countersigner=shuffler,  # type: ignore[arg-type]
    )


def test_both_signatures_are_published(centre: Centre) -> None:
    """Whoever pins both keys can check what was published."""
    with centre.database.snapshot() as transaction:
        signed = current_campaign(transaction, CAMPAIGN.id)
        assert known_campaigns(transaction) == [CAMPAIGN.id]
    assert signed is not None
    assert SignedCampaign.from_bytes(signed.to_bytes(), PINNED).campaign == CAMPAIGN


def test_publishing_again_asks_nobody(centre: Centre) -> None:
    """What is published is returned as it is."""
    asked = centre.shuffler.asked
    assert centre.publisher.publish(CAMPAIGN).campaign == CAMPAIGN
    assert centre.publisher.publish_keyset(keyset(7)).keyset == keyset(7)
    assert centre.shuffler.asked == asked


class Meanwhile:
    """A shuffler that signs, while somebody else proposes another document of the same version."""

    def __init__(self, centre: Centre, sql: str, *rival: int | str | bytes) -> None:
        self._centre = centre
        self._rival = sql, rival

    def campaign(self, campaign: Campaign, fusion_signature: bytes) -> bytes:
        """Sign a campaign."""
        self._propose("campaigns")
        return self._centre.shuffler.campaign(campaign, fusion_signature)

    def keyset(self, keyset: Keyset, fusion_signature: bytes) -> bytes:
        """Sign a keyset."""
        self._propose("keysets")
        return self._centre.shuffler.keyset(keyset, fusion_signature)

    def _propose(self, table: str) -> None:
        with self._centre.database.transaction() as transaction:
            transaction.execute(f"DELETE FROM {table} WHERE shuffler_signature IS NULL")  # noqa: S608
            transaction.execute(*self._rival)


def test_what_the_shuffler_signed_is_published_whoever_else_proposes(centre: Centre) -> None:
    """A rival proposal neither loses a signed campaign nor gets the signature of another keyset."""
    newer = next_version(CAMPAIGN, not_before=ROUND + 5, beta=0.1)
    rival = (CAMPAIGN.id, 2, b"hash", b"body", ROUND + 6, b"signature")
    columns = "(campaign, version, hash, body, not_before, fusion_signature)"
    sql = f"INSERT INTO campaigns {columns} VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608
    published_by(centre, Meanwhile(centre, sql, *rival)).publish(newer)
    keys = replace(keyset(7), version=keyset(7).version + 1)
    sql = "INSERT INTO keysets (version, body, fusion_signature) VALUES (?, ?, ?)"
    shuffler = Meanwhile(centre, sql, keys.version, b"body", b"signature")
    published_by(centre, shuffler).publish_keyset(keys)
    with centre.database.snapshot() as transaction:
        signed, public = current_campaign(transaction, CAMPAIGN.id), current_keyset(transaction)
        left = transaction.execute("SELECT 1 FROM campaigns WHERE shuffler_signature IS NULL")
    assert signed is not None
    assert SignedCampaign.from_bytes(signed.to_bytes(), PINNED).campaign == newer
    assert public is not None
    assert SignedKeyset.from_bytes(public.to_bytes(), PINNED).keyset == keys
    assert left == []


def test_versions_follow_each_other(centre: Centre) -> None:
    """A new version is for later rounds, and every round knows its own."""
    newer = next_version(CAMPAIGN, not_before=ROUND + 5, beta=0.1, rho=0.5)
    assert (newer.version, newer.not_after) == (2, CAMPAIGN.not_after)
    centre.publisher.publish(newer)
    with centre.database.snapshot() as transaction:
        found = [campaign_in_round(transaction, CAMPAIGN.id, ROUND + step) for step in (0, 4, 5)]
        assert [one.campaign.version for one in found if one is not None] == [1, 1, 2]
        assert campaign_in_round(transaction, CAMPAIGN.id, 0) is None
        assert campaign_in_round(transaction, CAMPAIGN.id, CAMPAIGN.not_after + 1) is None


@pytest.mark.any_store
@pytest.mark.parametrize(
    ("campaign", "words"),
    [
        (replace(CAMPAIGN, id="new", version=2), "version must be 1"),
        (replace(CAMPAIGN, version=3, not_before=ROUND + 9), "version must be 2"),
        (replace(CAMPAIGN, version=2, not_before=ROUND), "not_before must be at least"),
        (replace(CAMPAIGN, version=2, not_before=ROUND + 9, unit="kW"), "unit must stay"),
        (replace(CAMPAIGN, beta=0.9), "version must be 2"),
    ],
)
def test_what_may_not_follow_is_refused(centre: Centre, campaign: Campaign, words: str) -> None:
    """No edit of a version, no gap, nothing for rounds that are under way."""
    with pytest.raises(CampaignInvalid, match=words):
        centre.publisher.publish(campaign)


class Refuses(Signs):
    """A shuffler that is not there."""

    def campaign(self, campaign: Campaign, fusion_signature: bytes) -> bytes:
        """Refuse."""
        raise NotCountersigned("not there")


class SignsWrongly(Signs):
    """A shuffler that signs something else."""

    def campaign(self, campaign: Campaign, fusion_signature: bytes) -> bytes:
        """Sign another campaign."""
        return signature_of(replace(campaign, k_min=99), SHUFFLER_SIGNER)

    def keyset(self, keyset: Keyset, fusion_signature: bytes) -> bytes:
        """Return no signature."""
        return bytes(64)


@pytest.mark.any_store
@pytest.mark.parametrize("shuffler", [Refuses(), SignsWrongly()])
def test_without_the_shufflers_signature_nothing_is_published(
    centre: Centre, shuffler: Signs
) -> None:
    """A proposal binds nobody, and can be made again, also in another form."""
    newer = next_version(CAMPAIGN, not_before=ROUND + 5, beta=0.1)
    with pytest.raises(RaseError):
        published_by(centre, shuffler).publish(newer)
    assert centre.questions.campaign(None) == CAMPAIGN
    other = next_version(CAMPAIGN, not_before=ROUND + 6, beta=0.2)
    centre.publisher.publish(other)
    assert centre.questions.campaign(None) == other


def test_keysets_go_forward_only(centre: Centre) -> None:
    """An older or changed keyset of the same version is refused."""
    with pytest.raises(ValueError, match="version must be above 1"):
        centre.publisher.publish_keyset(keyset(7, 9))
    with pytest.raises(BadSignature):
        published_by(centre, SignsWrongly()).publish_keyset(keyset(7, 9, version=2))
    with centre.database.snapshot() as transaction:
        known = current_keyset(transaction)
    assert known is not None
    assert known.keyset.version == 1
    assert centre.publisher.publish_keyset(keyset(9, version=3)).keyset.version == 3


def shuffler(answer: httpx.Response | Exception) -> HttpCountersigner:
    """Return a countersigner whose shuffler gives one answer."""

    def handle(request: httpx.Request) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        body, signature = cbor.decode(request.content, max_size=1 << 20)
        assert len(signature) == 64
        if request.url.path == "/v1/keyset":
            return httpx.Response(
                200, content=signature_of(Keyset.from_bytes(body), SHUFFLER_SIGNER)
            )
        found = campaign_from_bytes(body)
        assert request.url.path == f"/v1/campaigns/{found.id}/{found.version}"
        return answer

    return HttpCountersigner("http://localhost:1/", transport=httpx.MockTransport(handle))


def test_the_shuffler_is_asked_over_http(centre: Centre) -> None:
    """Campaign and keyset go there with our signature and come back with its own."""
    newer = next_version(CAMPAIGN, not_before=ROUND + 5, beta=0.1)
    answer = httpx.Response(201, content=signature_of(newer, SHUFFLER_SIGNER))
    publisher = published_by(centre, shuffler(answer))
    assert publisher.publish(newer).campaign == newer
    assert publisher.publish_keyset(keyset(7, 9, version=2)).keyset.version == 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx.ConnectError("no"), "does not answer"),
        (httpx.Response(500, content=b"oops"), "HTTP status 500"),
        (httpx.Response(201, content=b"short"), "something else than a signature"),
        (
            httpx.Response(
                403,
                content=Problem(PROBLEM_TYPES["not-enrolled"], "epsilon is too large.").to_json(),
            ),
            "epsilon is too large",
        ),
        (
            httpx.Response(403, content=Problem(PROBLEM_TYPES["not-enrolled"]).to_json()),
            "not enrolled",
        ),
    ],
)
def test_refusals_of_the_shuffler_are_told(answer: httpx.Response | Exception, words: str) -> None:
    """Its reason reaches the operator; the exit code is that of a peer."""
    with pytest.raises(NotCountersigned, match=words) as refused:
        shuffler(answer).campaign(CAMPAIGN, bytes(64))
    assert refused.value.exit_code == 4


def test_a_shuffler_that_still_computes_is_asked_again() -> None:
    """Some times with pauses between; then the operator is told, and nothing is published."""
    still = Problem(PROBLEM_TYPES["unsigned"], "the closer does not answer.")
    unsigned = httpx.Response(503, content=still.to_json())
    paused: list[float] = []

    def ask(*answers: httpx.Response) -> bytes:
        waiting = iter(answers)
        transport = httpx.MockTransport(lambda _: next(waiting))
        asking = HttpCountersigner("http://localhost:1/", transport=transport, pause=paused.append)
        return asking.campaign(CAMPAIGN, bytes(64))

    assert ask(unsigned, unsigned, httpx.Response(201, content=bytes(64))) == bytes(64)
    assert paused == [5.0, 5.0]
    with pytest.raises(NotCountersigned, match="the closer does not answer"):
        ask(unsigned, unsigned, unsigned, unsigned)
    assert paused == [5.0] * 5
    busy = Problem(PROBLEM_TYPES["not-enrolled"], "Too many at once.")
    with pytest.raises(NotCountersigned, match="Too many at once"):
        ask(httpx.Response(503, content=busy.to_json()))
    assert len(paused) == 5


@pytest.mark.parametrize("url", ["http://shuffler.example", "ftp://localhost", "https://", "x"])
def test_the_shuffler_is_asked_in_secret(url: str) -> None:
    """Only https, except on this machine."""
    with pytest.raises(ConfigurationError, match="https"):
        HttpCountersigner(url)
    HttpCountersigner("https://shuffler.example")


def test_effects_are_computed_from_the_mechanism() -> None:
    """A larger epsilon has a smaller error; clamping is told where there is any."""
    (now,) = effect_of(CAMPAIGN, 100)
    (then,) = effect_of(replace(CAMPAIGN, epsilon=(2.0,)), 100)
    assert then.standard_error < now.standard_error
    assert now.best_standard_error <= now.standard_error
    assert now.is_clamping
    (laplace,) = effect_of(replace(CAMPAIGN, mechanism="laplace"), 100)
    assert laplace.is_clamping is None
    assert laplace.standard_error == pytest.approx(3000 * 2**0.5 / 10, rel=0.01)
    with pytest.raises(ValueError, match="n must be at least 1"):
        effect_of(CAMPAIGN, 0)
