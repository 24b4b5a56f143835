"""A span for each question of a subscriber: which kind of question, and how it was answered.

Who asked, and for which rounds, stands in the access log alone.
"""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rase.service.telemetry import Telemetry

__all__ = ["TracedQuestions"]

_QUESTIONS: Final = "/v1/"
# Batches have a span of their own; how long a stream was listened to is nobody's business.
_LEFT_OUT: Final = ("/v1/batches/", "/v1/stream")


class TracedQuestions:
    """Time the requests of subscribers, if spans go anywhere.

    Args:
        app: What answers.
        telemetry: Makes the spans.
    """

    def __init__(self, app: ASGIApp, *, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if (
            self._telemetry.tracer is None
            or scope["type"] != "http"
            or not scope["path"].startswith(_QUESTIONS)
            or scope["path"].startswith(_LEFT_OUT)
        ):
            await self._app(scope, receive, send)
            return
        with self._telemetry.span("question", method=scope["method"]) as span:

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.tell(status=message["status"])
                await send(message)

            await self._app(scope, receive, sending)
            # The pattern, not the address: that may hold a name or a time.
            route = getattr(scope.get("route"), "path", None)
            span.tell(route=route or "unknown")
