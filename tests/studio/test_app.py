"""The studio's door: open to whoever has its address, closed to every other site."""

import pytest
from tests.cases import each_case
from tests.studio.conftest import PORT, Visitor


def test_its_address_leads_to_the_explorer(visitor: Visitor) -> None:
    """The first page is the Explorer, and every link of it stays below the secret."""
    answer = visitor.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{visitor.root}/explorer")
    text = visitor.get("/explorer").text
    assert f'href="{visitor.root}/attack"' in text
    assert 'href="/' not in text.replace(f'href="{visitor.root}/', "")
    assert "Log in" not in text


@each_case("path", ["/", "/explorer", "/wrong/explorer", "/static/explorer.js", "/login", "//"])
def test_without_the_secret_nothing_is_shown(visitor: Visitor, path: str) -> None:
    """Pages, files and forms are all refused, and the refusal does not name the secret."""
    answer = visitor.ask_anywhere("GET", path)
    assert answer.status_code == 403
    assert visitor.root not in answer.text


def test_the_secret_without_its_slash_is_refused(visitor: Visitor) -> None:
    """Only addresses below it are pages."""
    assert visitor.ask_anywhere("GET", visitor.root).status_code == 403


@each_case("host", ["example.org", f"example.org:{PORT}", "127.0.0.1", "127.0.0.1:1", ""])
def test_another_name_for_this_machine_is_refused(visitor: Visitor, host: str) -> None:
    """A site whose name points here gets nothing, even if it knew the secret."""
    answer = visitor.get("/explorer", headers={"Host": host})
    assert answer.status_code == 421
    assert visitor.get("/explorer", headers={"Host": f"LOCALHOST:{PORT}"}).status_code == 200


@each_case(
    "origin", ["http://example.org", "null", "http://127.0.0.1:1", f"https://127.0.0.1:{PORT}"]
)
def test_requests_of_other_sites_are_refused(visitor: Visitor, origin: str) -> None:
    """A form or script of another origin is sent away before a page sees it."""
    proof = visitor.proof(visitor.get("/explorer").text)
    fields = {"proof": proof, "theme": "dark", "next": f"{visitor.root}/explorer"}
    refused = visitor.ask("POST", "/theme", data=fields, headers={"Origin": origin})
    assert refused.status_code == 403
    own = {"Origin": f"http://127.0.0.1:{PORT}"}
    taken = visitor.ask("POST", "/theme", data=fields, headers=own)
    assert (taken.status_code, taken.headers["location"]) == (303, f"{visitor.root}/explorer")


def test_a_browser_is_led_in_once(visitor: Visitor) -> None:
    """What other users may see on a browser's command line opens nothing a second time."""
    code = visitor.app.once_address.removeprefix(f"http://127.0.0.1:{PORT}")
    assert visitor.root not in code
    first = visitor.ask_anywhere("GET", code)
    assert (first.status_code, first.headers["location"]) == (303, f"{visitor.root}/")
    assert visitor.ask_anywhere("GET", code).status_code == 403
    with pytest.raises(ValueError, match="must be used once"):
        _ = visitor.app.once_address


def test_addresses_do_not_leave_with_a_link(visitor: Visitor) -> None:
    """The secret is not sent to other sites, and no page may be framed or script added."""
    headers = visitor.get("/explorer").headers
    assert headers["referrer-policy"] == "same-origin"
    assert headers["x-frame-options"] == "DENY"
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "rase_session" not in headers.get("set-cookie", "")


def test_an_unknown_page_says_so(visitor: Visitor) -> None:
    """The way back leads below the secret."""
    answer = visitor.get("/live")
    assert answer.status_code == 404
    assert f'href="{visitor.root}/"' in answer.text


def test_two_studios_have_two_secrets() -> None:
    """An address of yesterday opens nothing today."""
    assert Visitor().root != Visitor().root
