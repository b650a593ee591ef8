"""What is to be replicated: the source, the company that it is for, and how records of the one become the other's."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from indexer.errors import SourceError
from mappings.dictionary import read_dictionary

if TYPE_CHECKING:
    from pathlib import Path

    from mappings.dictionary import Dictionary

AUTO, BY_EVENTS, BY_TIMES = "auto", "events", "timestamps"


@dataclass(frozen=True)
class Plan:
    """One replication.

    `declared` is the company's own record, if the map has it; `prefix` goes before the keys of the source; of a sole
    source what it lacks is deleted from the index, also what another run or another source has brought.
    """

    url: str
    company: str
    dictionary: Dictionary
    declared: dict[str, Any] | None = None
    prefix: str = ""
    time_zone: str | None = None
    changes: str = AUTO
    is_sole: bool = False

    def __post_init__(self) -> None:
        """Raise SourceError for a declared company that is another."""
        if self.declared is not None and self.declared.get("platform_company_id") != self.company:
            raise SourceError(
                f"[company] in the map must have platform_company_id = {self.company!r}, as in --company."
            )

    @property
    def name(self) -> str:
        """The name of the mirror's file: another source or company has another."""
        digest = hashlib.sha256(f"{self.url.rstrip('/')} {self.company} {self.prefix}".encode()).hexdigest()[:12]
        return f"{self.company}-{digest}"


def read_map(path: Path | None) -> tuple[Dictionary, dict[str, Any] | None]:
    """Return the dictionary that a map leads to and the company that it declares; raise SourceError."""
    if path is None:
        return read_dictionary(), None
    try:
        given = msgspec.toml.decode(path.read_bytes())
        declared = msgspec.convert(given.pop("company", None), dict[str, Any] | None)
        return read_dictionary(msgspec.toml.encode(given)), declared
    except OSError as error:
        raise SourceError(f"{path} cannot be opened: {error.strerror}.") from error
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise SourceError(f"{path.name}: {error}.") from error
