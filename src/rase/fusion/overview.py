"""What pages show over HTTP: whose token it is, which campaigns there are."""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from rase.fusion.access import BEARER, PROBLEMS, asker_of

__all__ = ["router"]

router = APIRouter()


@router.get("/v1/token", tags=["subscriber"], responses=PROBLEMS, dependencies=BEARER)
def token(request: Request) -> Response:
    """Return whose token this is, its scopes and when it ends."""
    asker = asker_of(request, None)
    return JSONResponse(
        {"name": asker.name, "scopes": list(asker.scopes), "expires_s": asker.expires_s},
        headers={"Cache-Control": "no-store"},
    )
