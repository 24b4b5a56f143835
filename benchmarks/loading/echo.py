"""Serve the least an ASGI app can do: read the body of a request and send it back."""

from starlette.types import Receive, Scope, Send

from rase.service.http import serve
from rase.service.telemetry import Telemetry


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with what came."""
    if scope["type"] != "http":
        return
    body, is_more = b"", True
    while is_more:
        message = await receive()
        body += message.get("body", b"")
        is_more = message.get("more_body", False)
    length = str(len(body)).encode()
    headers = [(b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    serve(echo, host="127.0.0.1", port=0, telemetry=Telemetry("echo"))
