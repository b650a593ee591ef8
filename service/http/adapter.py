"""Requests of clients that expect another API, as requests of the contract; this adapter leaves all as they are."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web
from marshmallow import Schema

from service.http.requests import BodyNotAllowed
from service.keys.api_key import ApiKey


class RequestAdapter:
    """Takes every request as it is: the contract alone."""

    headers: Mapping[str, str] = {}  # of every response to an adapted request
    reads_basic = False  # whether a key may come by HTTP Basic

    def recognizes(self, request: web.BaseRequest) -> bool:  # noqa: ARG002 - for adapters
        """Return whether a request asks to be adapted, whatever its key."""
        return False

    def takes_body(self, request: web.Request) -> bool:  # noqa: ARG002
        """Return whether the body of a request may hold its parameters."""
        return False

    def require_basic(self, request: web.Request, key: ApiKey) -> None:
        """Raise Unauthorized if this key may not come by HTTP Basic."""

    async def adapt(self, request: web.Request, key: ApiKey, schema: Schema) -> web.Request:  # noqa: ARG002
        """Return the request with all of its parameters in the query; raise ApiError."""
        if request.body_exists:
            raise BodyNotAllowed
        return request

    def problem(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the problem document as an adapted client reads it."""
        return document
