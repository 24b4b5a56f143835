"""Style sheets, scripts and pictures of the pages: few and small, read and compressed once.

The style sheets that most pages need stand in the pages, so that a browser paints without asking
again; the policy in the headers names their hash, and no other inline style is allowed.
"""

import base64
import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from mimetypes import guess_type
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

__all__ = ["Asset", "assets", "serve_asset", "style", "style_source"]

_INLINE: Final = ("rase.css", "vendor/uplot/uPlot.min.css")
_COMMENT: Final = re.compile(r"/\*.*?\*/\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is served.

    Args:
        body: Its bytes.
        packed: The same, compressed.
        media_type: What it is.
        tag: Changes with its bytes.
    """

    body: bytes
    packed: bytes
    media_type: str
    tag: str


async def serve_asset(request: Request) -> Response:
    """Return a file; without its bytes if the browser has them already."""
    found = assets(request.app.state.site.packages).get(request.path_params["path"])
    if found is None:
        raise HTTPException(404)
    # Asked for again each time, and answered without a body while it is the same.
    headers = {"Cache-Control": "no-cache", "ETag": found.tag, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    body = found.body
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"], body = "gzip", found.packed
    return Response(body, media_type=found.media_type, headers=headers)


@cache
def assets(packages: tuple[str, ...] = ("rase.dashboard",)) -> dict[str, Asset]:
    """Return all files of some packages, and those of every page, by their paths."""
    found: dict[str, Asset] = {}
    for package in (*packages, "rase.theme"):
        _collect(files(package) / "static", "", found)
    return found


@cache
def style() -> str:
    """Return the style that stands in every page."""
    return "".join(_COMMENT.sub("", assets()[name].body.decode("utf-8")) for name in _INLINE)


@cache
def style_source() -> str:
    """Return that style's hash, as a policy names it."""
    digest = hashlib.sha256(style().encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _collect(folder: Traversable, prefix: str, found: dict[str, Asset]) -> None:
    for item in folder.iterdir():
        name = f"{prefix}{item.name}"
        if item.is_dir():
            _collect(item, f"{name}/", found)
            continue
        body = item.read_bytes()
        media_type = guess_type(name)[0] or "application/octet-stream"
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        found[name] = Asset(body, gzip.compress(body, 9, mtime=0), media_type, tag)
