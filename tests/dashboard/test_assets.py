"""Style sheets, scripts and pictures, as browsers ask for them."""

import base64
import gzip
import hashlib
import re

import pytest
from tests.dashboard.conftest import Desk

from rase.dashboard.assets import assets


@pytest.mark.parametrize("path", ["rase.css", "live.js", "icon.svg", "vendor/uplot/LICENSE"])
def test_a_file_comes_once(desk: Desk, path: str) -> None:
    """It has its type and a tag; whoever brings the tag again is told that it is still the same."""
    first = desk.get(f"/static/{path}")
    assert first.status_code == 200
    assert first.content == assets()[path].body
    assert first.headers["cache-control"] == "no-cache"
    again = desk.get(f"/static/{path}", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert desk.get(f"/static/{path}", headers={"If-None-Match": '"x"'}).status_code == 200


def test_files_are_compressed_once_for_those_who_can_read_it(desk: Desk) -> None:
    """What is not asked for compressed comes as it is; types are those that browsers insist on."""
    plain = desk.get("/static/chart.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    packed = desk.get("/static/chart.js", headers={"Accept-Encoding": "gzip, br"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert packed.content == plain.content == gzip.decompress(assets()["chart.js"].packed)
    assert "javascript" in packed.headers["content-type"]
    assert desk.get("/static/rase.css").headers["content-type"].startswith("text/css")


@pytest.mark.parametrize("path", ["nothing.css", "", "../page.py", "%2e%2e/page.py", "vendor"])
def test_nothing_else_is_served(desk: Desk, path: str) -> None:
    """Only what lies in the folders for it; neither folders nor the code beside them."""
    assert desk.get(f"/static/{path}").status_code == 404


def test_the_one_inline_style_is_named_by_its_hash(desk: Desk) -> None:
    """The policy allows the style in the page, and no other."""
    answer = desk.get("/login")
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert f"style-src 'self' 'sha256-{digest}';" in policy
    assert "--ground" in style
    assert ".uplot" in style
