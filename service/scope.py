"""What a request may read: the companies that its key allows, narrowed by its parameters, and what it sees of records.

Rules 1-6 of the spec's shared parameter `parent_company_id`, and decisions, Identity, keys, scope.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from mappings import FIELD_GROUPS
from mappings.resource import Resource
from mappings.visibility import WITHHELD, DisplayLicence
from service.errors import ApiError, Forbidden, InvalidRequest
from service.keys.api_key import ApiKey

COMPANY_PARAMETER = "platform_company_id"
PARENT_PARAMETER = "parent_company_id"


class ListedCompany(msgspec.Struct, frozen=True, gc=False):
    """A company: its key, its numeric id, and its parent by either."""

    key: str
    numeric_id: str | None = None
    parent: str | None = None


@dataclass(frozen=True)
class CompanyDirectory:
    """A snapshot of all companies: their keys, numeric ids and parents."""

    keys: dict[str, str] = field(default_factory=dict)  # company key or numeric id -> company key
    children: dict[str, frozenset[str]] = field(default_factory=dict)  # parent's company key -> children's keys
    families: dict[str, frozenset[str]] = field(default_factory=dict)  # the same, with the parent

    @classmethod
    def of(cls, companies: Iterable[ListedCompany]) -> CompanyDirectory:
        """Build the snapshot of some companies."""
        companies = list(companies)
        keys = {company.numeric_id: company.key for company in companies if company.numeric_id is not None}
        keys |= {company.key: company.key for company in companies}
        children: dict[str, set[str]] = {}
        for company in companies:
            parent = None if company.parent is None else keys.get(company.parent)
            if parent is not None:
                children.setdefault(parent, set()).add(company.key)
        families = {parent: frozenset({parent, *group}) for parent, group in children.items()}
        return cls(keys, {parent: frozenset(group) for parent, group in children.items()}, families)

    def key(self, company: str) -> str | None:
        """Return the key of a company given by key or numeric id; None if unknown."""
        return self.keys.get(company)

    def keys_of(self, companies: Iterable[str]) -> frozenset[str]:
        """Return the keys of those of the given companies that exist."""
        return frozenset(filter(None, map(self.keys.get, companies)))

    def family(self, parent: str) -> frozenset[str]:
        """Return the keys of a company and of those below it."""
        return self.families.get(parent, frozenset({parent}))


@dataclass(frozen=True)
class Scope:
    """The companies a request may read; None means all.

    `is_explicit` is whether a parameter chose them, which `source_agent_id` requires.
    """

    companies: frozenset[str] | None
    is_explicit: bool = False
    single_company: str | None = field(init=False, compare=False)  # the company's key if the scope is a single company

    def __post_init__(self) -> None:
        single = next(iter(self.companies)) if self.companies is not None and len(self.companies) == 1 else None
        object.__setattr__(self, "single_company", single)

    def covers(self, company: str) -> bool:
        return self.companies is None or company in self.companies

    def includes(self, other: Scope) -> bool:
        """Return whether all companies of another scope are in this one."""
        return self.companies is None or (other.companies is not None and other.companies <= self.companies)


def allowed_scope(key: ApiKey, directory: CompanyDirectory) -> Scope:
    """Return everything that a key may read."""
    if key.all_companies:
        return Scope(None)
    companies = directory.keys_of(key.companies)
    if not key.parent_companies:
        return Scope(companies)
    families = [directory.family(parent) for parent in directory.keys_of(key.parent_companies)]
    if len(families) == 1 and companies <= families[0]:
        return Scope(families[0])  # thousands of companies are not copied for each request
    return Scope(companies.union(*families))


def resolve_scope(key: ApiKey, directory: CompanyDirectory, company: str | None, parent: str | None) -> Scope:
    """Return the scope of a request by its two scope parameters; raise ApiError if the key or the values forbid it."""
    allowed = allowed_scope(key, directory)
    if parent is not None:
        return _under_parent(key, directory, company, parent)
    if company is not None:
        return Scope(frozenset({_company(allowed, directory, company)}), is_explicit=True)
    return allowed


def _under_parent(key: ApiKey, directory: CompanyDirectory, company: str | None, parent: str) -> Scope:
    children = directory.children.get(_parent(key, directory, parent), frozenset())
    if not children and key.all_companies:
        raise InvalidRequest.of(PARENT_PARAMETER, f"{parent!r} is not a parent company.")
    if company is None:
        return Scope(children, is_explicit=True)
    child = _company(allowed_scope(key, directory), directory, company)
    if not _is_numeric(company):
        raise InvalidRequest.of(COMPANY_PARAMETER, f"with {PARENT_PARAMETER} it must be the numeric id of the company.")
    if child not in children:
        raise InvalidRequest.of(COMPANY_PARAMETER, f"{company!r} is not a company under the given {PARENT_PARAMETER}.")
    return Scope(frozenset({child}), is_explicit=True)


def _company(allowed: Scope, directory: CompanyDirectory, company: str) -> str:
    known = directory.key(company)
    if known is not None and allowed.covers(known):
        return known
    raise _refusal(COMPANY_PARAMETER, company, knows_all=allowed.companies is None)


def _parent(key: ApiKey, directory: CompanyDirectory, parent: str) -> str:
    known = directory.key(parent)
    if known is not None and (key.all_companies or known in directory.keys_of(key.parent_companies)):
        return known
    raise _refusal(PARENT_PARAMETER, parent, knows_all=key.all_companies)


def _refusal(parameter: str, value: str, *, knows_all: bool) -> ApiError:
    """Report a company as unknown only to a key that may read all: to others unknown and foreign look the same."""
    if knows_all:
        return InvalidRequest.of(parameter, f"there is no company {value!r}.")
    return Forbidden.of(parameter, f"this key may not read company {value!r}.")


def _is_numeric(company: str) -> bool:
    return company.isascii() and company.isdigit()


# Matches the records that a display licence allows to show.
_SHOWN: dict[str, object] = {"bool": {"must_not": [{"term": {WITHHELD: True}}]}}


def withheld_groups(granted: Collection[str] | None) -> frozenset[str]:
    """Return the field groups hidden from a key; `granted` are the visible ones, or None for all.

    Unknown group names grant nothing. Restricted keys do not see groups that are declared later.
    """
    return frozenset() if granted is None else FIELD_GROUPS.difference(granted)


class Visibility(NamedTuple):
    """What a key may see, made once for a request.

    `withheld` are the field groups whose fields are emptied, and by which the key may not filter; `display` is its
    licence (decision 36), None for a key that may show everything.
    """

    withheld: frozenset[str] = frozenset()
    display: DisplayLicence | None = None

    @classmethod
    def of(cls, key: ApiKey) -> Visibility:
        return cls(withheld_groups(key.fields), key.display)

    def includes(self, other: Visibility) -> bool:
        """Return whether this shows all that another one shows."""
        return self.withheld <= other.withheld and self.display in {None, other.display}

    def clauses(self, resource: Resource) -> tuple[dict[str, object], ...]:
        """Return the clauses that withhold the records which the licence does not allow to show."""
        return (_SHOWN,) if self.display and resource.address else ()

    def hides_addresses(self, resource: Resource) -> bool:
        """Return whether the address of records that opted out of showing it is emptied."""
        return bool(self.display and resource.address)
