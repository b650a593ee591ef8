"""An encoded page of changes, which several requests may share."""

from dataclasses import dataclass, field

from service.feed.token import FeedPositions

# Of the objects of a page.
_OVERHEAD_BYTES = 2048


@dataclass
class ChangesPage:
    """The encoded changes of one page, and the positions after them; requests share it, so none may change it."""

    positions: FeedPositions
    entries: list[bytes] = field(default_factory=list)
    at_end: bool = True

    @property
    def memory_bytes(self) -> int:
        """About how much memory the page takes."""
        return _OVERHEAD_BYTES + sum(map(len, self.entries))
