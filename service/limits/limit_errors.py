"""The errors with status 429."""

from service.errors import ApiError


class RateLimited(ApiError):
    """The key has exceeded its rate."""

    status = 429
    code = "rate-limited"
    title = "Too many requests"

    def __init__(self, seconds: int) -> None:
        """Report the whole seconds until the next request is allowed."""
        super().__init__(
            "The key has exceeded its rate limit. Try again after Retry-After seconds.",
            headers={"Retry-After": str(seconds)},
        )


class ConcurrencyLimited(ApiError):
    """The key has too many concurrent requests in this process."""

    status = 429
    code = "too-many-at-once"
    title = "Too many requests at once"

    def __init__(self, limit: int) -> None:
        """Report the limit."""
        super().__init__(
            f"A key may have at most {limit} requests in progress. Send the next one when a response has arrived.",
            headers={"Retry-After": "1"},
        )


class ShareExceeded(ApiError):
    """The key holds as many slots that are held for long as it leaves to other keys."""

    status = 429
    code = "too-many-at-once"
    title = "Too many requests at once"

    def __init__(self, held: int) -> None:
        """Report the number of requests in progress."""
        super().__init__(
            f"The key has {held} such requests in progress, and no more places are left for all other keys. "
            "Send the next one when one of these has ended.",
            headers={"Retry-After": "5"},
        )


class UnreadResponses(ApiError):
    """The key has left too many bytes of its responses unread."""

    status = 429
    code = "too-many-at-once"
    title = "Too many requests at once"

    def __init__(self, limit: int) -> None:
        """Report the limit in bytes."""
        super().__init__(
            f"More than {limit} bytes of responses to this key are still unread. "
            "Read the responses on its other connections, or close these, before the next request.",
            headers={"Retry-After": "5"},
        )


class AuthFailuresLimited(ApiError):
    """The address has sent too many invalid keys. Valid keys from the same address are not refused."""

    status = 429
    code = "rate-limited"
    title = "Too many requests"

    def __init__(self, seconds: int) -> None:
        """Report the whole seconds until the next attempt is allowed."""
        super().__init__(
            "Too many requests from this address had no valid API key. Try again after Retry-After seconds.",
            headers={"Retry-After": str(seconds)},
        )
