"""Answers that are errors, in the form of OData; and the HTML that frameworks answer instead."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

import orjson

JSON = "application/json; charset=utf-8"
HTML = "text/html; charset=utf-8"
ODATA = {"Content-Type": JSON, "OData-Version": "4.01"}


@dataclass(frozen=True)
class ServerResponse:
    """The response to send."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


class ODataError(Exception):
    """A request that is refused: status, code and message of the error's body, and what of the request is wrong."""

    def __init__(self, status: int, code: str, message: str, target: str = "Query") -> None:
        """Say what is wrong."""
        super().__init__(message)
        self.status, self.code, self.message, self.target = status, code, message, target
        self.details: list[dict[str, str]] = []
        self.headers: dict[str, str] = {}

    def response(self) -> ServerResponse:
        """Return the OData body."""
        error = {"code": self.code, "message": self.message, "target": self.target, "details": self.details}
        return ServerResponse(self.status, orjson.dumps({"error": error}), ODATA | self.headers)


def bad_option(name: str, message: str) -> ODataError:
    """Return the refusal of a query option."""
    problem = ODataError(400, "40000", f"Invalid {name}: {message}")
    problem.details.append({"code": "30212", "target": name, "message": message})
    return problem


def unauthorized(code: str, message: str) -> ODataError:
    """Return the refusal of a request without a token, or with one that does not hold."""
    problem = ODataError(401, code, message, "Authorization")
    problem.headers["WWW-Authenticate"] = 'Bearer realm="reso"'
    return problem


def html_page(status: int, text: str) -> ServerResponse:
    """Return what a web framework or a gateway answers by itself."""
    page = f"<!DOCTYPE html>\n<html><head><title>Error</title></head><body><pre>{escape(text)}</pre></body></html>\n"
    return ServerResponse(status, page.encode(), {"Content-Type": HTML})
