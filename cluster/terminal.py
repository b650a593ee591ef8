"""Text for a terminal, without the control characters that could rewrite its lines or run its commands.

Records, messages of servers and names of files come from elsewhere. Everything that a command prints or logs passes
`printable` or a `SafeConsole`. `brokerage_feed.terminal` does the same for the client.
"""

import re
from collections.abc import Iterable

from rich.console import Console
from rich.segment import Segment

# C0 and C1 except tab and line break, and the characters that reverse the direction of text or break lines.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return a text with unsafe characters as `\\u001b`, which is also their form in JSON."""
    return _UNSAFE.sub(lambda unsafe: f"\\u{ord(unsafe[0]):04x}", text)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 line`, `2,000 lines`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class SafeConsole(Console):
    """A console that prints unsafe characters of texts visibly; its own colors and cursor movements stay."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else Segment(printable(segment.text), segment.style) for segment in buffer
        )
