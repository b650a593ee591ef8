"""The records that a consumer replicates, and the reason when one leaves the copy (decision 12)."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from mappings import LISTING, RESOURCES
from mappings.display import LISTING_SWITCH, refuses
from mappings.fields import View
from mappings.legends import ON_MARKET_STATUSES
from mappings.resource import Resource
from mappings.shown_content import ShownContent
from mappings.stored_document import TombstoneReason, sorted_companies, split_document_id
from service.feed.hit_parser import DocumentHeader, Hit
from service.feed.token import view_fingerprint
from service.records.projection import Variant
from service.request_context import UNDERSCORE_PARAMETER, RequestContext
from service.search.display import displayed
from service.search.query import Clause, lacks_field, terms
from service.search.used_fields import used_fields

ON_MARKET = "on-market"
_ON_MARKET = frozenset(ON_MARKET_STATUSES)


@dataclass(frozen=True)
class FeedView:
    """The records in a request's scope and filters, in the form that its key may read."""

    call: RequestContext

    @property
    def identity(self) -> Hashable:
        """Equal for requests whose records, and their form, are the same."""
        companies, withheld = self.call.scope.companies, self.call.withheld
        spelling = self.call.parameters.get(UNDERSCORE_PARAMETER, False)
        return companies, self._on_market, self._with_deactivated, withheld, spelling, self.call.display

    @cached_property
    def fingerprint(self) -> bytes:
        """The fingerprint a token is bound to: a different view needs a new snapshot.

        With other guarded members in a later version the content hashes of the copy are void, too.
        """
        companies = self.call.scope.companies
        listed = None if companies is None else sorted_companies(companies)
        contents = [self.content(resource).content for resource in RESOURCES]
        licence = [self.call.display, sorted(self._hidden_with_address)] if self.call.display else []
        return view_fingerprint(
            listed, self._on_market, self._with_deactivated, sorted(self.call.withheld), contents, *licence
        )

    @property
    def _hidden_with_address(self) -> set[str]:
        return {name for resource in RESOURCES for name in self.content(resource).names}

    @property
    def _on_market(self) -> bool:
        return bool(self.call.parameters.get("market_status") == ON_MARKET)

    @property
    def _with_deactivated(self) -> bool:
        return bool(self.call.parameters.get("include_deactivated"))

    def variant(self, resource: Resource) -> Variant:
        """Return the record form: the index variant with every optional field."""
        return self.call.variant(resource, View.INDEX, all_flags=True)

    def content(self, resource: Resource) -> ShownContent:
        """Return the content hash that the key may see: it covers nothing that is withheld or hidden from it."""
        return resource.shown_content(self.call.withheld, self.call.display)

    def clauses(self, resource: Resource) -> list[Clause]:
        """Return the clauses that restrict records, in addition to the scope."""
        clauses: list[Clause] = [*displayed(resource, self.call.display)]
        if resource is LISTING and self._on_market:
            clauses.append(terms("status", ON_MARKET_STATUSES))
        if _has_deactivation(resource) and not self._with_deactivated:
            clauses.append(lacks_field("deactivated"))
        return clauses

    def required_fields(self, resource: Resource) -> set[str]:
        """Return the search fields that `removal_reason` and the content hash are read from."""
        return {*used_fields(self.clauses(resource)), *self.content(resource).names}

    def removal_reason(self, resource: Resource, hit: Hit) -> str | None:
        """Return why a document's record is not in the copy, None if it is."""
        header, record = hit
        if header.deleted:
            return "out_of_scope" if header.reason == TombstoneReason.MOVED else "deleted"
        # By the record, so that an index without the search field shows nothing either; first, as the rest is hidden.
        if self.call.display and resource.address and record is not None and refuses(record, LISTING_SWITCH):
            return "withheld"
        if resource is LISTING and self._on_market and header.status not in _ON_MARKET:
            return "off_market"
        if header.deactivated is not None and not self._with_deactivated:
            return "deactivated"
        return None

    def is_move_within_scope(self, header: DocumentHeader) -> bool:
        """Whether a record moved between companies of the scope: its new document is the change to report."""
        return header.moved_to is not None and self.call.scope.covers(header.moved_to)


def header_identifier(header: DocumentHeader) -> str:
    """Return the record identifier of a document."""
    return split_document_id(header.id)[1]


def _has_deactivation(resource: Resource) -> bool:
    return any(field.name == "deactivated" for field in resource.search_fields)
