"""The state of a key's rate limit, and its response headers (draft-ietf-httpapi-ratelimit-headers-10)."""

from dataclasses import dataclass
from functools import lru_cache

from service.limits.rate_policy import RatePolicy

_SECOND_MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class RateLimitState:
    """The bucket of a key after a request.

    `backlog_microseconds` is the time until the bucket would be full again if the request were allowed; more than the
    depth of the bucket means that it was refused.
    """

    policy: RatePolicy | None
    backlog_microseconds: int = 0

    @property
    def is_allowed(self) -> bool:
        """Whether the request was allowed."""
        return self.policy is None or self.backlog_microseconds <= self.policy.depth_microseconds

    @property
    def remaining(self) -> int:
        """The number of requests that would be allowed now; 0 without a limit, where it is unused."""
        if self.policy is None:
            return 0
        return (self.policy.depth_microseconds - self._level(self.policy)) // self.policy.interval_microseconds

    @property
    def retry_after(self) -> int:
        """Whole seconds until one more request is allowed than now."""
        return 0 if self.policy is None else _seconds(self._until_next(self.policy))

    def headers(self) -> dict[str, str]:
        """Return the response headers; a key without a limit has none.

        The remaining requests count towards the burst. `X-RateLimit-Reset` is in seconds until the bucket is full.
        """
        if self.policy is None:
            return {}
        level, remaining = self._level(self.policy), self.remaining
        return {
            "RateLimit-Policy": policy_header(self.policy),
            "RateLimit": f'"burst";r={remaining};t={self.retry_after}',
            "X-RateLimit-Limit": str(self.policy.burst),
            "X-RateLimit-Remaining": str(remaining),
            "X-RateLimit-Reset": str(_seconds(level)),
        }

    def _level(self, policy: RatePolicy) -> int:
        """Return the microseconds until the bucket is full; a refused request took nothing from it."""
        refused = 0 if self.is_allowed else policy.interval_microseconds
        return max(self.backlog_microseconds - refused, 0)

    def _until_next(self, policy: RatePolicy) -> int:
        if not self._level(policy):
            return 0
        return self._level(policy) - policy.depth_microseconds + (self.remaining + 1) * policy.interval_microseconds


@lru_cache(maxsize=1024)
def policy_header(policy: RatePolicy) -> str:
    """Return `RateLimit-Policy`: the burst with the seconds until the bucket is full, and the rate per minute."""
    return f'"burst";q={policy.burst};w={_seconds(policy.depth_microseconds)},"minute";q={policy.rate};w=60'


def _seconds(microseconds: int) -> int:
    return -(-microseconds // _SECOND_MICROSECONDS)
