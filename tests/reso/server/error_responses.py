"""Answers, and those that are errors, in the form of OData; and the HTML that frameworks answer instead."""

from dataclasses import dataclass, field

import orjson

JSON = "application/json; charset=utf-8"
ODATA = {"Content-Type": JSON, "OData-Version": "4.01"}


@dataclass(frozen=True)
class ServerResponse:
    """The response to send."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


class ODataError(Exception):
    """A request that is refused."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers or {}

    def response(self) -> ServerResponse:
        body = orjson.dumps({"error": {"code": self.code, "message": self.message}})
        return ServerResponse(self.status, body, ODATA | self.headers)


def bad_option(name: str, message: str) -> ODataError:
    return ODataError(400, "40000", f"Invalid {name}: {message}")


def unauthorized(message: str) -> ODataError:
    """Return the refusal of a request without a token, or with one that does not hold."""
    return ODataError(401, "40100", message, {"WWW-Authenticate": 'Bearer realm="reso"'})


def html_page(status: int, text: str) -> ServerResponse:
    body = f"<!DOCTYPE html>\n<html><head><title>Error</title></head><body>{text}</body></html>\n".encode()
    return ServerResponse(status, body, {"Content-Type": "text/html; charset=utf-8"})
