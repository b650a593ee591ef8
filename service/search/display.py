"""Clauses by which a display licence withholds listings, and hides addresses from filters (decision 36)."""

from mappings.display import ADDRESS_HIDDEN, WITHHELD, DisplayLicence
from mappings.resource import Resource
from service.search.query import Clause, match_none, term

HIDDEN_ADDRESS: Clause = term(ADDRESS_HIDDEN, value=True)


def displayed(resource: Resource, licence: DisplayLicence | None) -> tuple[Clause, ...]:
    """Return the clauses that withhold what a licence does not allow to show."""
    return (match_none(term(WITHHELD, value=True)),) if licence and resource.address else ()


def with_shown_address(clause: Clause) -> Clause:
    """Narrow a clause on the address to records whose address may be shown: others must not confirm guesses."""
    return {"bool": {"filter": [clause], "must_not": [HIDDEN_ADDRESS]}}
