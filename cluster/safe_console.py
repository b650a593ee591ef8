"""A rich console whose texts are safe for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.segment import Segment

from cluster.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable


class SafeConsole(Console):
    """A console that prints unsafe characters of texts visibly; its own colors and cursor movements stay."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else Segment(printable(segment.text), segment.style) for segment in buffer
        )
