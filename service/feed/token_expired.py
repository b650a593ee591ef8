"""The error that asks a consumer to take a new snapshot."""

from service.errors import ApiError


class FeedTokenExpired(ApiError):
    """The changes since a token are no longer available."""

    status = 410
    code = "token-expired"
    title = "Token expired"

    def __init__(self, why: str) -> None:
        """Take the reason as what follows "The token" in a sentence."""
        super().__init__(f"The token {why}: take a snapshot and continue from its token.")
