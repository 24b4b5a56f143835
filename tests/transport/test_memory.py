"""Messages inside one process, and through a bad network."""

import contextlib
from collections import Counter

import pytest

from rase.kernels.entropy import SeededEntropy
from rase.transport.interface import Answer, Transport, Unreachable
from rase.transport.memory import FAULTS, Fault, FaultyTransport, MemoryTransport, Message


class Service:
    """Remember what arrived."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def handle(self, message: Message) -> Answer:
        """Answer with what was sent."""
        self.messages.append(message)
        return Answer(200, message.body, etag='"1"')


def ask(transport: Transport, body: bytes = b"abc") -> Answer:
    """Send something."""
    return transport.post("/v1", body, content_type="text/plain", credential="secret")


def test_memory_hands_everything_over() -> None:
    """The service sees all parts of a message; the credential is not shown."""
    service = Service()
    transport = MemoryTransport(service.handle)
    assert ask(transport).body == b"abc"
    assert transport.get("/v1/x", etag='"1"').status == 200
    assert service.messages == [
        Message("POST", "/v1", b"abc", content_type="text/plain", credential="secret"),
        Message("GET", "/v1/x", etag='"1"'),
    ]
    assert "secret" not in repr(service.messages)
    assert "abc" not in repr(service.messages)


@pytest.mark.parametrize(
    ("fault", "arrived", "is_answered"),
    [
        ("drop", [], False),
        ("lose-answer", [b"abc"], False),
        ("duplicate", [b"abc", b"abc"], True),
        ("delay", [], False),
    ],
)
def test_each_fault_does_what_it_says(
    fault: Fault, arrived: list[bytes], is_answered: bool
) -> None:
    """What arrives, and whether an answer comes back."""
    service = Service()
    transport = FaultyTransport(service.handle, entropy=SeededEntropy(1), chances={fault: 1.0})
    if is_answered:
        assert ask(transport).status == 200
    else:
        with pytest.raises(Unreachable):
            ask(transport)
    assert [message.body for message in service.messages] == arrived
    assert transport.counts == {fault: 1}


def test_tampering_changes_one_bit() -> None:
    """A changed message or answer differs in one byte; an empty one gets one."""
    service = Service()
    entropy = SeededEntropy(1)
    way = FaultyTransport(service.handle, entropy=entropy, chances={"tamper": 1.0})
    ask(way)
    (message,) = service.messages
    assert sum(a != b for a, b in zip(message.body, b"abc", strict=True)) == 1
    back = FaultyTransport(service.handle, entropy=entropy, chances={"tamper-answer": 1.0})
    assert ask(back).body != b"abc"
    assert service.messages[-1].body == b"abc"
    assert back.get("/v1").body == b"\x00"


def test_delayed_messages_come_later_and_in_another_order() -> None:
    """Nothing that was delayed is lost, and some of it overtakes."""
    service = Service()
    transport = FaultyTransport(service.handle, entropy=SeededEntropy(2026), chances={"delay": 0.5})
    for place in range(40):
        with contextlib.suppress(Unreachable):
            ask(transport, bytes([place]))
    transport.deliver_delayed()
    assert transport.deliver_delayed() == 0
    order = [message.body[0] for message in service.messages]
    assert sorted(order) == list(range(40))
    assert order != sorted(order)


def test_faults_come_as_often_as_asked_and_repeat_with_the_seed() -> None:
    """Each of six faults in a tenth of 3,000 messages (within 6 standard errors), seed by seed."""

    def run(seed: int) -> Counter[str]:
        transport = FaultyTransport(
            Service().handle, entropy=SeededEntropy(seed), chances=dict.fromkeys(FAULTS, 0.1)
        )
        for _ in range(3000):
            with contextlib.suppress(Unreachable):
                ask(transport)
        return transport.counts

    counts = run(1)
    assert counts == run(1) != run(2)
    for fault in FAULTS:
        assert abs(counts[fault] - 300) < 6 * 16.5


def test_an_outage_answers_nothing() -> None:
    """While it is down, nothing arrives."""
    service = Service()
    transport = FaultyTransport(service.handle, entropy=SeededEntropy(1), chances={})
    transport.is_down = True
    with pytest.raises(Unreachable, match="down"):
        ask(transport)
    assert service.messages == []


def test_chances_must_make_sense() -> None:
    """Unknown faults and chances above 1 are refused."""
    for chances in ({"explode": 0.1}, {"drop": 0.9, "delay": 0.2}):
        with pytest.raises(ValueError, match="chances must be of"):
            FaultyTransport(Service().handle, entropy=SeededEntropy(1), chances=chances)  # type: ignore[arg-type]
