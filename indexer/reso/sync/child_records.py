"""Records that a source sends as a member of their parent, such as the photos in a Property."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from indexer.reporting.report import ResourceReport
from indexer.reso.client.reso_client import ResoClient
from indexer.reso.dialects.entity_form import ChildForm
from indexer.reso.mirror.mirror_store import Mirror
from indexer.reso.mirror.record_links import key_text
from mappings.data_dictionary.model import MODIFICATION_TIMESTAMP

_NEXT_LINK = "@odata.nextLink"


@dataclass
class ChildRecords:
    """The children of one entity's records; each is stored with its parent, in the same transaction.

    A list counts as all children of the parent, so what it lacks is removed. If the member is missing, the children of
    the parent stay as they are, unless the parent says that it has none.
    """

    parent: str
    form: ChildForm
    mirror: Mirror
    report: ResourceReport = field(init=False)
    changed: int = 0
    removed: int = 0
    without_key: int = 0
    fewer: int = 0  # parents with fewer children than they say
    example: str = ""

    def __post_init__(self) -> None:
        """Start a report with zero counts."""
        self.report = ResourceReport(self.form.name)

    @property
    def name(self) -> str:
        """The entity of the children."""
        return self.form.name

    @property
    def key(self) -> str:
        """The key field."""
        return self.form.entity.key

    async def complete(self, client: ResoClient, row: dict[str, Any]) -> None:
        """Read the further pages of a parent's children: a source may send the first few of them with a link."""
        link = row.get(f"{self.form.member}{_NEXT_LINK}")
        visited: set[str] = set()
        while isinstance(link, str) and link not in visited:
            visited.add(link)
            page = await client.fetch_link(self.name, link)
            row[self.form.member] = [*(row.get(self.form.member) or []), *page.value]
            link = page.next_link

    def store(self, parent_key: str, row: Mapping[str, Any]) -> None:
        """Store the children in a row of their parent, within the caller's transaction."""
        items, expected = row.get(self.form.member), _count(row.get(self.form.counted_by))
        given = items if isinstance(items, list) else []
        if expected is not None and len(given) < expected:
            self.fewer += 1
            self.example = self.example or f"{parent_key!r} has {len(given)} of {expected}"
        known = set(self.mirror.part_keys(self.name, self.parent, parent_key))
        listed = dict(self._records(parent_key, given))
        for key, record in listed.items():
            self._put(key, record)
        if isinstance(items, list) or expected == 0:
            self._remove(known - listed.keys())

    def remove_all(self, parent_key: str) -> None:
        """Remove the children of a parent that is gone, within the caller's transaction."""
        self._remove(set(self.mirror.part_keys(self.name, self.parent, parent_key)))

    def _remove(self, keys: set[str]) -> None:
        for key in sorted(keys):
            self.removed += self.mirror.remove(self.name, key)

    def _put(self, key: str, record: dict[str, Any]) -> None:
        modified = record.get(MODIFICATION_TIMESTAMP)
        self.report.read += 1
        self.changed += self.mirror.put(self.name, key, modified if isinstance(modified, str) else "", record)

    def _records(self, parent_key: str, items: list[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield key and record of each child; one without a key of its own gets one from its parent and position."""
        seen: set[str] = set()
        for position, item in enumerate(items):
            if not isinstance(item, dict):
                self.without_key += 1
                continue
            own = key_text(item.get(self.key))
            key = own if own and own not in seen else f"{parent_key}:{own}:{position}"
            seen.add(key)
            record = {name: item[name] for name in self.form.select if item.get(name) is not None}
            yield key, record | self._links(parent_key) | {self.key: key}

    def _links(self, parent_key: str) -> dict[str, str]:
        """Return the fields that link a child to its parent: sources omit them, or fill them with another key."""
        keys = dict.fromkeys(self.form.key_fields, parent_key)
        return keys | dict.fromkeys(self.form.name_fields, self.parent)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
