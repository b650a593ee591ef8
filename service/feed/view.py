"""Which records a consumer keeps, and why one that it may have is not among them any more (decision 12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mappings import LISTING
from mappings.document import Reason, split_id
from mappings.fields import View
from mappings.legends import ON_MARKET_STATUSES
from service.feed.token import view_of
from service.query import Clause, absent, terms

if TYPE_CHECKING:
    from mappings.resource import Resource
    from service.feed.hits import Head
    from service.operation import Call
    from service.projection import Variant

ON_MARKET = "on-market"
_ACTIVE = frozenset(ON_MARKET_STATUSES)


@dataclass(frozen=True)
class Kept:
    """The records of a request's scope and filters, in the form of its key and spelling."""

    call: Call

    @property
    def fingerprint(self) -> bytes:
        """What a token is bound to: whoever sees anything else than before needs a snapshot."""
        companies = self.call.scope.companies
        listed = None if companies is None else sorted(companies)
        return view_of(listed, self._on_market, self._with_deactivated, sorted(self.call.withheld))

    @property
    def _on_market(self) -> bool:
        return bool(self.call.parameters["market_status"] == ON_MARKET)

    @property
    def _with_deactivated(self) -> bool:
        return bool(self.call.parameters["include_deactivated"])

    def variant(self, resource: Resource) -> Variant:
        """Return the form of a record: the index variant with everything that a flag would bring."""
        return self.call.variant(resource, View.INDEX, whole=True)

    def clauses(self, resource: Resource) -> list[Clause]:
        """Return the clauses that records must match beside the scope."""
        clauses: list[Clause] = []
        if resource is LISTING and self._on_market:
            clauses.append(terms("status", ON_MARKET_STATUSES))
        if _is_activity_known(resource) and not self._with_deactivated:
            clauses.append(absent("deactivated"))
        return clauses

    def leaving(self, resource: Resource, head: Head) -> str | None:
        """Return why the record of a document is not kept, None where it is."""
        if head.deleted:
            return "out_of_scope" if head.reason == Reason.MOVED else "deleted"
        if resource is LISTING and self._on_market and head.status not in _ACTIVE:
            return "off_market"
        if head.deactivated is not None and not self._with_deactivated:
            return "deactivated"
        return None

    def is_departure_within(self, head: Head) -> bool:
        """Whether a record went from one company of the scope to another: it is told of where it is now."""
        return head.moved_to is not None and self.call.scope.covers(head.moved_to)


def identifier(head: Head) -> str:
    """Return the identifier of the record that a document is about."""
    return split_id(head.id)[1]


def _is_activity_known(resource: Resource) -> bool:
    return any(field.name == "deactivated" for field in resource.filters)
