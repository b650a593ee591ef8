"""What can go wrong between a consumer and the service. No text of these holds the key."""

from __future__ import annotations


class FeedError(Exception):
    """The service did not give what was asked for."""


class Refused(FeedError):
    """The service refuses the request, and would refuse it again: key, scope or parameters. `status` says which."""

    def __init__(self, status: int, sentence: str) -> None:
        """Keep the status beside the sentence for people."""
        super().__init__(sentence)
        self.status = status


class TokenExpired(FeedError):
    """The token leads nowhere any more (410): take a snapshot."""


class Away(FeedError):
    """Nothing usable was answered in all the attempts: try again later."""


class CopyError(Exception):
    """The copy on the disk cannot be used; the text names the file."""


class Locked(CopyError):
    """Another pull works in the same folder."""
