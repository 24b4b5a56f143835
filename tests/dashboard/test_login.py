"""Logging in and out, and what happens to those who are not."""

import pytest
from tests.dashboard.conftest import Desk


def test_a_token_opens_the_first_page(desk: Desk) -> None:
    """After the form one is where one wanted to be, with a cookie that scripts cannot read."""
    answer = desk.log_in(desk.reader)
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert desk.reader not in cookie
    assert desk.get("/").headers["location"] == "/live"
    assert desk.get("/live").status_code == 200


@pytest.mark.parametrize("token", ["", "rase_x", "rase_0000000000000000_" + "A" * 43, "ü"])
def test_a_wrong_token_is_told_and_can_be_mended(desk: Desk, token: str) -> None:
    """The page says so and shows the form again; nothing is logged in."""
    answer = desk.log_in(token)
    assert answer.status_code == 401
    assert "This token is not valid" in answer.text
    assert desk.get("/live").headers["location"] == "/login?next=%2Flive"
