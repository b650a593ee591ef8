"""What a client keeps of a source across restarts, and the limits that it is kept for."""

from dataclasses import dataclass

from indexer.reso.client.request_windows import CountStore
from indexer.reso.client.source_limits import SourceLimits
from indexer.reso.client.token_grants import RefreshTokenStore

NO_LIMITS = SourceLimits()


@dataclass(frozen=True)
class KeptState:
    """The limits of a source, and the stores of its request counts and refresh token; None keeps them in memory."""

    limits: SourceLimits = NO_LIMITS
    counts: CountStore | None = None
    refresh_tokens: RefreshTokenStore | None = None


NOTHING_KEPT = KeptState()
