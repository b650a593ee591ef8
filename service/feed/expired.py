"""The error that sends a consumer to a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.errors import ApiError

if TYPE_CHECKING:
    from mappings.resource import Resource


class TokenExpired(ApiError):
    """What has changed since a token cannot be told any more."""

    status = 410
    code = "token-expired"
    title = "Token expired"

    def __init__(self, resource: Resource | None = None) -> None:
        """Name the resource that was rolled back or read too late; None where the key sees something else by now."""
        why = "was made for another scope or other filters" if resource is None else f"is void for {resource.alias}"
        super().__init__(f"The token {why}: take a snapshot and go on with its token.")
