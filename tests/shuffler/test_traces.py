"""What the shuffler's spans tell: how long intake, close and forward took, and of no device."""

from typing import TYPE_CHECKING

import httpx
from tests.service.spans import collected
from tests.shuffler.test_app import report, talk

from rase.shuffler.forward import Answer

if TYPE_CHECKING:
    from tests.shuffler.conftest import World


def test_intake_close_and_forward_are_timed_without_devices(world: "World") -> None:
    """No span holds a device, a credential, an envelope or its sender's address."""
    world.upload_time(100)
    wires = [world.seal(100, place=90 + device) for device in range(4)]
    world.ear.answers = [Answer.LATER]

    async def work(client: httpx.AsyncClient) -> None:
        for device in (3, 0, 2, 1):
            answer = await client.post(**report(world, wires[device], device=device))
            assert answer.status_code == 201

    with collected(world.telemetry, "shuffler intake") as spans:
        talk(world, work)
        world.close_time(100)
        while world.closer().step():
            pass
        world.clock.advance(60)
        while world.closer().step():
            pass
    by_name = {span.name: span.fields for span in spans}
    assert [span.name for span in spans] == ["intake"] * 4 + ["close", "forward", "forward"]
    assert by_name["intake"] == {"rase.count": 1}
    close = {"rase.campaign": "homes", "rase.round": 100, "rase.state": "released"}
    assert by_name["close"] == close
    assert by_name["forward"] == {
        "rase.round": 100,
        "rase.attempt": 2,
        "rase.state": "accepted",
    }
    text = "".join(span.text for span in spans)
    for device, credential, wire in zip(world.devices, world.credentials, wires, strict=True):
        for secret in (str(device), f"{device:016x}", credential, wire.hex(), wire[14:46].hex()):
            assert secret not in text


def test_a_withheld_round_does_not_tell_how_many_came(world: "World") -> None:
    """Two of four devices sent; the span of the close says below_k and no number."""
    world.upload_time(100)
    for device in range(2):
        world.send(device, world.seal(100))
    world.close_time(100)
    with collected(world.telemetry, "shuffler closer") as spans:
        assert world.closer().close_one() is not None
    (one,) = spans
    assert one.fields == {"rase.campaign": "homes", "rase.round": 100, "rase.state": "below_k"}
