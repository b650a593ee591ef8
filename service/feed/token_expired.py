"""The error that asks a consumer to take a new snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.errors import ApiError

if TYPE_CHECKING:
    from mappings.resource import Resource


class FeedTokenExpired(ApiError):
    """The changes since a token are no longer available."""

    status = 410
    code = "token-expired"
    title = "Token expired"

    def __init__(self, resource: Resource | None = None) -> None:
        """Name the resource that was rolled back or whose tombstones were pruned; None if scope or filters differ."""
        why = "was made for another scope or other filters" if resource is None else f"is void for {resource.alias}"
        super().__init__(f"The token {why}: take a snapshot and continue from its token.")
