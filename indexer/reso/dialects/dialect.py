"""A dialect: what differs between sources that implement the RESO Web API. It is the table [dialect] of a map.

The shipped profiles (`mappings/reso_profiles`) are maps, too; their comments describe each member.
"""

from typing import Final, Literal

import msgspec

from indexer.reso.client.odata_query import string_literal
from indexer.reso.client.reso_client import BY_PREFER, BY_TOP
from indexer.reso.client.source_limits import SourceLimits
from mappings.data_dictionary.model import MODIFICATION_TIMESTAMP

OWN_SET: Final = "set"
EMBEDDED: Final = "embedded"
EXPANDED: Final = "expand"
BY_KEYS: Final = "keys"
BY_TIMES: Final = "times"
BY_LINKS: Final = "links"
BY_NUMBERS: Final = "numbers"
SYSTEM = "{system}"

Walk = Literal["keys", "times", "links"]
Placement = Literal["set", "embedded", "expand"]


class Sign(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"among": "is"}):
    """A field and the values by which it says something; compared as texts, without case, spaces and punctuation."""

    field: str
    among: tuple[str, ...]


class ChildSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"places": "from"}):
    """Where the records come from that are part of others. The first place that the metadata describes counts."""

    places: tuple[Placement, ...] = (OWN_SET, EMBEDDED, EXPANDED)
    of: tuple[str, ...] = ("Property",)  # the entities that have them as a member
    member: str = ""  # the name of that member; empty: the name of the entity
    options: bool = True  # `$expand` accepts `$select`
    top: int = 0  # `$top` within `$expand`, for sources that otherwise send the first few; 0: none
    counted_by: str = ""  # the field of the parent with the number of its children


class EntityPaging(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the pages of an entity are requested, where it differs from the others."""

    load: Walk | None = None
    changes: Literal["times", "links"] | None = None
    page_size: int | None = None


class Dialect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to read a source."""

    profile: str = "generic"
    system: str = ""
    tested: str = ""
    load: Walk = BY_KEYS
    changes: Literal["times", "links"] = BY_TIMES
    load_path: str = ""
    load_option: str = ""
    page_size: int = 0
    size_by: tuple[Literal["prefer", "top"], ...] = (BY_PREFER, BY_TOP)
    filter: str = ""
    live: str = ""
    searchable: dict[str, tuple[str, ...]] = {}
    modified: tuple[str, ...] = (MODIFICATION_TIMESTAMP,)
    gone: Sign | None = None
    hosts: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    limits: SourceLimits = SourceLimits()
    lookups: Literal["names", "numbers"] = "names"
    children: dict[str, ChildSource] = {}
    expects: dict[str, tuple[str, ...]] = {}
    entities: dict[str, EntityPaging] = {}

    def finds_keys(self, entity: str, key: str) -> bool:
        """Whether a filter may name the key of an entity."""
        return entity not in self.searchable or key in self.searchable[entity]

    def walk_of(self, entity: str) -> tuple[Walk, Walk]:
        """Return how an entity is loaded and compared, and how its changes are followed."""
        own = self.entities.get(entity, EntityPaging())
        return own.load or self.load, own.changes or self.changes

    def page_size_of(self, entity: str, wanted: int) -> int:
        """Return how many records of an entity to request in a page: at most what the source sends."""
        own = self.entities.get(entity, EntityPaging())
        return min(wanted, own.page_size or self.page_size or wanted)

    @property
    def required_filter(self) -> str:
        """The filter that the source demands of each request."""
        return self.filter.replace(SYSTEM, string_literal(self.system))


STANDARD = Dialect()
