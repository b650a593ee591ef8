"""What a key may see of records: field groups that are withheld, and the licence by which listings are shown."""

from typing import NamedTuple

from mappings.resource import Resource
from mappings.visibility import DisplayLicence
from service.keys.api_key import ApiKey
from service.keys.authentication import withheld_groups
from service.search.query import Clause, displayed


class Visibility(NamedTuple):
    """What a key may see, made once for a request.

    `withheld` are the field groups whose fields are emptied, and by which the key may not filter; `display` is its
    licence (decision 36), None for a key that may show everything.
    """

    withheld: frozenset[str] = frozenset()
    display: DisplayLicence | None = None

    @classmethod
    def of(cls, key: ApiKey) -> "Visibility":
        """Return what a key may see."""
        return cls(withheld_groups(key.fields), key.display)

    def clauses(self, resource: Resource) -> tuple[Clause, ...]:
        """Return the clauses that withhold the records which the licence does not allow to show."""
        return displayed(resource, self.display)

    def hides_addresses(self, resource: Resource) -> bool:
        """Return whether the address of records that opted out of showing it is emptied."""
        return bool(self.display and resource.address)
