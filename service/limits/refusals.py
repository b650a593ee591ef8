"""The answers 429."""

from __future__ import annotations

from service.errors import ApiError


class RateLimited(ApiError):
    """More requests than the key may send."""

    status = 429
    code = "rate-limited"
    title = "Too many requests"

    def __init__(self, seconds: int) -> None:
        """Say in how many whole seconds there is room for one more."""
        super().__init__(
            "The key has sent more requests than its limit allows. Try again after Retry-After seconds.",
            headers={"Retry-After": str(seconds)},
        )


class TooManyAtOnce(ApiError):
    """More requests of one key at a time than a process answers."""

    status = 429
    code = "too-many-at-once"
    title = "Too many requests at once"

    def __init__(self, most: int) -> None:
        """Say how many there may be."""
        super().__init__(
            f"At most {most} requests of a key are answered at a time. Send the next when one is answered.",
            headers={"Retry-After": "1"},
        )


class TooManyFailures(ApiError):
    """More wrong keys than an address may send. A right key from the same address is not refused."""

    status = 429
    code = "rate-limited"
    title = "Too many requests"

    def __init__(self, seconds: int) -> None:
        """Say in how many whole seconds one more is looked at."""
        super().__init__(
            "Too many requests from this address had no valid API key. Try again after Retry-After seconds.",
            headers={"Retry-After": str(seconds)},
        )
