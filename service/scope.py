"""Which companies a request may read: what its key allows, narrowed by its parameters, as part of every query.

Rules 1-6 of the spec's shared parameter `parent_company_id`, and decisions, Identity, keys, scope.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.errors import ApiError, Forbidden, InvalidRequest

if TYPE_CHECKING:
    from service.directory import Directory
    from service.keys.record import ApiKey

COMPANY = "platform_company_id"
PARENT = "parent_company_id"


@dataclass(frozen=True)
class Scope:
    """The companies a request may read; None stands for all of them.

    `named` tells whether a parameter chose them, which `source_agent_id` needs.
    """

    companies: frozenset[str] | None
    named: bool = False

    @property
    def single(self) -> str | None:
        """The company's key where the scope is one company."""
        return next(iter(self.companies)) if self.companies is not None and len(self.companies) == 1 else None

    def covers(self, company: str) -> bool:
        """Tell whether a company is within."""
        return self.companies is None or company in self.companies


def readable(key: ApiKey, directory: Directory) -> Scope:
    """Return all that a key may read."""
    if key.all_companies:
        return Scope(None)
    parents = directory.keys_of(key.parent_companies)
    children = frozenset[str]().union(*(directory.children.get(parent, frozenset()) for parent in parents))
    return Scope(directory.keys_of(key.companies) | parents | children)


def resolve(key: ApiKey, directory: Directory, company: str | None, parent: str | None) -> Scope:
    """Return the scope of a request that sent these two parameters, or refuse it."""
    allowed = readable(key, directory)
    if parent is not None:
        return _under_parent(key, directory, company, parent)
    if company is not None:
        return Scope(frozenset({_company(allowed, directory, company)}), named=True)
    return allowed


def _under_parent(key: ApiKey, directory: Directory, company: str | None, parent: str) -> Scope:
    children = directory.children.get(_parent(key, directory, parent), frozenset())
    if not children and key.all_companies:
        raise InvalidRequest.of(PARENT, f"{parent!r} is not a parent company.")
    if company is None:
        return Scope(children, named=True)
    child = _company(readable(key, directory), directory, company)
    if not _is_numeric(company):
        raise InvalidRequest.of(COMPANY, f"beside {PARENT} it must be the numeric id of the company.")
    if child not in children:
        raise InvalidRequest.of(COMPANY, f"{company!r} is not a company under the given {PARENT}.")
    return Scope(frozenset({child}), named=True)


def _company(allowed: Scope, directory: Directory, company: str) -> str:
    known = directory.key(company)
    if known is not None and allowed.covers(known):
        return known
    raise _refusal(COMPANY, company, knows_all=allowed.companies is None)


def _parent(key: ApiKey, directory: Directory, parent: str) -> str:
    known = directory.key(parent)
    if known is not None and (key.all_companies or known in directory.keys_of(key.parent_companies)):
        return known
    raise _refusal(PARENT, parent, knows_all=key.all_companies)


def _refusal(parameter: str, value: str, *, knows_all: bool) -> ApiError:
    """Tell an unknown company only to a key that may read all: to others unknown and foreign look the same."""
    if knows_all:
        return InvalidRequest.of(parameter, f"there is no company {value!r}.")
    return Forbidden.of(parameter, f"this key may not read company {value!r}.")


def _is_numeric(company: str) -> bool:
    return company.isascii() and company.isdigit()
