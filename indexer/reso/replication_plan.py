"""The plan of a replication: source, company, and the map between their records."""

import hashlib
from dataclasses import dataclass
from typing import Any

from indexer.errors import SourceError
from indexer.reso.dialects.dialect import STANDARD, Dialect
from mappings.data_dictionary.model import DataDictionary

AUTO, BY_EVENTS, BY_TIMESTAMPS = "auto", "events", "timestamps"


@dataclass(frozen=True)
class ReplicationPlan:
    """One replication.

    `declared` is the company's own record, if the map has one. `prefix` is put before all keys of the source. With
    `is_sole`, records of the company that the source lacks are deleted from the index, whatever their origin.
    `without` are kinds of records that are not read, and whose absence is accepted (`indexer.reso.dialects.gaps`).
    """

    url: str
    company: str
    dictionary: DataDictionary
    declared: dict[str, Any] | None = None
    prefix: str = ""
    time_zone: str | None = None
    changes: str = AUTO
    is_sole: bool = False
    dialect: Dialect = STANDARD
    without: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Raise SourceError if the declared company is not the one of the plan."""
        if self.declared is not None and self.declared.get("platform_company_id") != self.company:
            raise SourceError(
                f"[company] in the map must have platform_company_id = {self.company!r}, the value of --company."
            )

    @property
    def mirror_name(self) -> str:
        """The file name of the mirror, unique per source, company and prefix."""
        digest = hashlib.sha256(f"{self.url.rstrip('/')} {self.company} {self.prefix}".encode()).hexdigest()[:12]
        return f"{self.company}-{digest}"
