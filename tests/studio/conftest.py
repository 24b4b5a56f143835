"""The studio's pages, and a browser without scripts."""

import asyncio
import re
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from rase.clock import FakeClock
from rase.studio.app import studio_app

PORT = 8000


class Visitor:
    """Somebody with the studio's address: sends forms, keeps cookies."""

    def __init__(self) -> None:
        self.app = studio_app(FakeClock(1_782_000_000), PORT)
        self.root = urlsplit(self.app.address).path.rstrip("/")
        self.cookies = httpx.Cookies()

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send one request below the secret, with the cookies of all answers before."""
        address = path if path.startswith(self.root) else self.root + path
        return self.ask_anywhere(method, address, **more)

    def ask_anywhere(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send one request as it is."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(
                transport=transport, base_url=f"http://127.0.0.1:{PORT}", cookies=self.cookies
            ) as client:
                answer = await client.request(method, path, **more)
                self.cookies = client.cookies
                return answer

        return asyncio.run(send())

    def get(self, path: str, **more: Any) -> httpx.Response:
        """Open an address."""
        return self.ask("GET", path, **more)

    @staticmethod
    def proof(text: str) -> str:
        """Return the proof in a page's forms."""
        found = re.search(r'name="proof" value="([0-9a-f]+)"', text)
        assert found is not None
        return found.group(1)


@pytest.fixture
def visitor() -> Visitor:
    """Somebody who was given the studio's address."""
    return Visitor()
