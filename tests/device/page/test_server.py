"""Who may see the owner's page, and what it does."""

import csv
import io
import re
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.device.owning import QUARTERS, Owned, owned
from tests.patience import PATIENCE_S

from rase.accounting.ledger import LedgerUnusable
from rase.device.page.server import OwnerPage
from rase.errors import ConfigurationError
from rase.wire.messages import Content

VIEWS = ("", "payload", "ledger.csv", "rase.css", "owner.css", "icon.svg")


def is_on(device: Owned) -> bool:
    """Return whether sharing is on."""
    return not device.folder.is_off


def test_it_listens_on_this_machine_alone(device: Owned) -> None:
    """The socket is bound to the loopback address."""
    assert device.page._server.socket.getsockname()[0] == "127.0.0.1"
    assert device.page.address == f"http://127.0.0.1:{device.page.port}/{device.page.token}/"
    assert device.get().status == 200


def test_without_the_secret_nothing_is_shown(device: Owned) -> None:
    """A wrong or missing secret is refused for every view and every form, and tells no value."""
    device.folder.switch(is_on=True)
    device.run(3)
    wrong = "A" * len(device.page.token)
    for name in (*VIEWS, "nowhere"):
        for path in (f"/{wrong}/{name}", f"/{name}", f"//{name}", f"/?token={device.page.token}"):
            answer = device.ask("GET", path)
            assert answer.status == 403
            assert not re.search(r"\d{3}", answer.text)
    for name in ("share", "off", "pause", "forget"):
        assert device.ask("POST", f"/{wrong}/{name}", body="sure=yes").status == 403
    assert is_on(device)
    assert not device.page.is_to_forget.is_set()


def test_another_name_for_this_machine_is_refused(device: Owned) -> None:
    """A site whose name was made to point here is told nothing, even with the secret."""
    for host in ("evil.example", f"evil.example:{device.page.port}", "127.0.0.1", ""):
        answer = device.get("", Host=host)
        assert answer.status == 421
        assert "Your device" not in answer.text
    assert device.get("", Host=f"LOCALHOST:{device.page.port}").status == 200


def test_a_form_needs_its_proof_and_our_origin(device: Owned) -> None:
    """Without the proof, with another's, or from another site nothing is done."""
    path = f"/{device.page.token}/share"
    for body in ("x=1", "proof=", "proof=" + "0" * 64, "proof=%C3%A9"):
        assert device.ask("POST", path, body=body).status == 403
    assert device.ask("POST", path).status == 403
    assert device.post("share", Origin="http://evil.example").status == 403
    assert device.post("share", Origin="null").status == 403
    assert not is_on(device)
    ours = f"http://127.0.0.1:{device.page.port}"
    assert device.post("share", Origin=ours).status == 303
    assert is_on(device)


def test_a_form_that_is_too_large_is_not_read(device: Owned) -> None:
    """More than a few fields are refused by their length."""
    assert device.post("share", {"x": "y" * 5000}).status == 413
    assert not is_on(device)


@pytest.mark.parametrize("name", VIEWS)
def test_every_answer_binds_the_browser(device: Owned, name: str) -> None:
    """No foreign or inline script, no other host, no frame, no copy on the disk, no referrer."""
    answer = device.get(name)
    assert answer.status == 200
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    scripts = re.findall("<script.*?</script>", answer.text)
    assert scripts == [] if name else ['<script type="module" src="owner.js"></script>']
    assert " style=" not in answer.text


def test_sharing_is_off_until_switched_on(device: Owned) -> None:
    """Nothing is sent before, though readings are shown; then a report a round; off ends it."""
    device.run(3)
    assert device.shuffler.received == []
    assert "Sharing is off" in device.get().text
    assert re.search(r"from \d+ readings? in this round", device.get().text)
    assert 'action="share"' not in device.get().text
    page = device.get("payload").text
    assert 'action="share"' in page
    assert device.shuffler.received == []
    device.post("share")
    device.run(3)
    sent = len(device.shuffler.stored)
    assert sent >= 2
    assert "Once a round one noisy value is sent" in device.get().text
    device.post("off")
    device.run(3)
    assert len(device.shuffler.stored) == sent
    assert "nothing was sent: sharing was off" in device.get().text


def test_the_preview_shows_the_bytes_and_costs_nothing(device: Owned) -> None:
    """All bytes of a report are there, of the size of real ones; the ledger stays empty."""
    assert "no terms or keys yet" in device.get("payload").text
    device.run(0.5)
    text = device.get("payload").text
    parts = re.findall(r'<code class="bytes">([0-9a-f]+)</code>', text)
    envelope = bytes.fromhex("".join(parts[:3]))
    assert len(envelope) == 437
    seen = device.shuffler.content(envelope)
    assert Content(seen.round, seen.place, seen.epsilon_class).to_bytes().hex() == parts[3]
    assert device.ledger.history(9) == []
    device.post("share")
    device.run(2)
    last = device.get("payload").text
    newest = max(device.shuffler.stored)
    assert device.shuffler.stored[newest].hex() in last


def test_measured_stands_beside_sent(device: Owned) -> None:
    """The table holds the mean that stayed and the noisy value that the fusion centre gets."""
    device.folder.switch(is_on=True)
    device.run(30)
    text = device.get().text
    seen = device.comparison.rounds
    assert len(seen) >= 29
    for one in seen[2:20]:
        content = device.shuffler.content(device.shuffler.stored["credential", one.round])
        step = device.campaign.domain.step
        assert one.sent == device.campaign.low + content.place * step
        assert one.measured is not None
        assert 0 < one.measured < 1000
    assert "<svg" in text
    assert text.count("<circle") >= 50


def test_pausing_and_resuming(device: Owned) -> None:
    """A pause leaves cover reports; the page says so and ends it."""
    device.folder.switch(is_on=True)
    device.run(2)
    device.post("pause")
    device.run(3)
    assert "Sharing is paused" in device.get().text
    assert "cover report: you paused" in device.get().text
    newest = device.shuffler.stored[max(device.shuffler.stored)]
    assert device.shuffler.content(newest).is_cover
    device.post("resume")
    device.run(2)
    newest = device.shuffler.stored[max(device.shuffler.stored)]
    assert not device.shuffler.content(newest).is_cover


def test_a_spent_budget_says_when_there_is_more(quick_folder: Path) -> None:
    """The notice has the limit, what a report needs, and the time; the round says cover report."""
    with owned(quick_folder / "device", QUARTERS, span_epsilon=5.0) as device:
        device.folder.switch(is_on=True)
        device.run(8)
        text = device.get().text
        assert "The budget in any day is spent: 0 is left, a report needs 1." in text
        assert re.search(r"There is more from \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", text)
        assert "cover report: your budget was spent" in text
        assert "74 of 100" in text


def test_refused_terms_are_told_with_their_reason(device: Owned) -> None:
    """The reason is a sentence; without terms the page is there all the same."""
    device.comparison.note("terms-refused", reason="wrong-signature")
    text = device.get().text
    assert "Terms were refused: A signature is missing" in text
    assert "No terms were accepted yet." in text


def test_the_ledger_can_be_saved(device: Owned) -> None:
    """As CSV with a line for every entry."""
    device.folder.switch(is_on=True)
    device.run(4)
    rows = list(csv.DictReader(io.StringIO(device.get("ledger.csv").text)))
    assert len(rows) == len(device.ledger.history(-1)) > 2
    assert rows[0].keys() == {"time", "campaign", "round", "epsilon"}
    assert {row["epsilon"] for row in rows} == {"1.0"}


def test_forgetting_needs_a_tick_and_waits_for_the_agent(device: Owned) -> None:
    """Without the tick nothing is asked for; with it the answer comes when all is erased."""
    assert device.post("forget").status == 400
    assert not device.page.is_to_forget.is_set()
    told: list[Any] = []
    asking = threading.Thread(target=lambda: told.append(device.post("forget", {"sure": "yes"})))
    asking.start()
    assert device.page.is_to_forget.wait(PATIENCE_S)
    assert told == []
    device.page.is_forgotten.set()
    asking.join(PATIENCE_S)
    assert told[0].status == 200
    assert "Unsent reports, credential and key are erased" in told[0].text


def test_an_agent_that_is_busy_forgets_later(
    device: Owned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page does not claim what has not happened."""
    monkeypatch.setattr("rase.device.page.server._PATIENCE_S", 0.01)
    answer = device.post("forget", {"sure": "yes"})
    assert (answer.status, "as soon as it can" in answer.text) == (202, True)


def test_colours_are_remembered(device: Owned) -> None:
    """The switch goes round, and a cookie that is none of ours changes nothing."""
    answer = device.post("theme", {"theme": "dark"})
    assert answer.headers["Set-Cookie"].startswith("rase_theme=dark; Path=/;")
    assert 'data-theme="dark"' in device.get("", Cookie="a=b; rase_theme=dark").text
    assert "data-theme" not in device.get("", Cookie="rase_theme=<b>").text
    assert device.post("theme", {"theme": "<b>"}).status == 404


def test_unknown_views_and_deeds_are_told(device: Owned) -> None:
    """They are not found, and nothing changes."""
    assert device.get("nowhere").status == 404
    assert device.post("nothing").status == 404
    assert not is_on(device)


def test_a_damaged_ledger_is_told_as_a_page(device: Owned, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says what to do instead of breaking."""

    def fail(*_: object) -> None:
        raise LedgerUnusable("the ledger is damaged. Keep it.")

    monkeypatch.setattr("rase.device.folder.DeviceFolder.ledger", fail)
    answer = device.get()
    assert (answer.status, "the ledger is damaged. Keep it." in answer.text) == (503, True)


def test_a_taken_port_is_told(device: Owned) -> None:
    """Two pages cannot have one port."""
    with pytest.raises(ConfigurationError, match=r"page\.port must be free"):
        OwnerPage(device.folder, device.page.port)


def test_many_open_connections_do_not_take_the_agents_memory(device: Owned) -> None:
    """Beyond a few the next one is closed at once; when they end the page is there again."""
    idle = [socket.create_connection(("127.0.0.1", device.page.port)) for _ in range(8)]
    for one in idle:
        one.sendall(b"GET /")
    late = socket.create_connection(("127.0.0.1", device.page.port))
    late.settimeout(PATIENCE_S)
    assert late.recv(1) == b""
    for one in [*idle, late]:
        one.close()
    answered = threading.Event()

    def ask() -> None:
        while not answered.is_set():
            try:
                if device.get().status == 200:
                    answered.set()
            except OSError:
                continue

    asking = threading.Thread(target=ask)
    asking.start()
    assert answered.wait(PATIENCE_S)
    asking.join()


def test_names_from_outside_are_escaped(quick_folder: Path) -> None:
    """A campaign's own words cannot become elements of the page."""
    campaign = replace(QUARTERS, quantity="<img src=x onerror=alert(1)>", unit="<b>")
    with owned(quick_folder / "device", campaign) as device:
        device.folder.switch(is_on=True)
        device.run(4)
        for name in ("", "payload"):
            text = device.get(name).text
            assert "<img src=x" not in text
            assert "<b>" not in text
            assert "&lt;b&gt;" in text
