"""A rich console whose texts are safe for a terminal."""

from collections.abc import Iterable

from rich.console import Console
from rich.segment import Segment

from cluster.terminal_text import printable


class SafeConsole(Console):
    """A console that prints unsafe characters of texts visibly; its own colors and cursor movements stay."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else Segment(printable(segment.text), segment.style) for segment in buffer
        )
