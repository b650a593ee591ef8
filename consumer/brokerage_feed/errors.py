"""Errors of the consumer. Their messages never contain the key, and no characters that are unsafe for a terminal."""

import re


class FeedError(Exception):
    """The service did not return what was requested."""


class FeedRequestRejected(FeedError):
    """The service rejects the request because of its key, scope or parameters: do not retry. `status` is the code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TokenExpired(FeedError):
    """The token has expired (410): take a snapshot."""


class ResponseTooLarge(FeedError):
    """A response exceeds a limit that no service needs; the message names what, and the limit."""


class KeyExposed(FeedError):
    """The key would be sent to another host unencrypted."""


class InvalidServiceUrl(FeedError):
    """What was given is not a URL with http or https and a host."""


class NoProgress(FeedError):
    """The service returns pages without end, or data that was not requested."""


class FeedUnavailable(FeedError):
    """All attempts failed: try again later."""


class ResourceNotLoaded(FeedUnavailable):
    """The service has no data of this resource yet (503 `not-loaded`)."""


class CopyError(Exception):
    """The copy on disk cannot be used; the message names the file."""


class CopyLocked(CopyError):
    """Another pull is using the folder."""


# C0 and C1 except tab and line break, and the characters that reverse the direction of text or break lines.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return a text with unsafe characters as `\\u001b`, which is also their form in JSON."""
    return _UNSAFE.sub(lambda unsafe: f"\\u{ord(unsafe[0]):04x}", text)
