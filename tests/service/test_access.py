"""Whether a key may still read what its request was accepted for, after its record or the companies have changed."""

import datetime as dt
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from mappings import FIELD_GROUPS
from mappings.visibility import DisplayLicence
from service.keys.api_key import ApiKey
from service.operation import Access
from service.scope import CompanyDirectory, ListedCompany, Visibility, resolve_scope

PAST, FUTURE = dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2200, 1, 1, tzinfo=dt.UTC)
KEY = ApiKey(
    key_id="k",
    name="k",
    digest="a" * 64,
    created=PAST,
    companies=("one", "two"),
    parent_companies=("parent",),
    fields=("commission",),
)
COMPANIES = [
    ListedCompany("one"),
    ListedCompany("two"),
    ListedCompany("parent"),
    ListedCompany("child", None, "parent"),
]
MOVED = [*COMPANIES[:3], ListedCompany("child", None, "two")]


def is_withdrawn(
    changes: dict[str, Any] | None, companies: list[ListedCompany], company: str | None = None, **granted: Any
) -> list[bool]:
    """Return whether access is withdrawn: at first, and after a change of the key, None for its deletion."""
    key, directory = msgspec.structs.replace(KEY, **granted), CompanyDirectory.of(COMPANIES)
    stored: list[ApiKey | None] = [key]
    keys, cached = SimpleNamespace(recall=lambda _: stored[0]), SimpleNamespace(current=directory)
    scope = resolve_scope(key, directory, company, None)
    access = Access(cast("Any", keys), cast("Any", cached), key, scope, Visibility.of(key))
    found = [access.is_withdrawn()]
    cached.current = CompanyDirectory.of(companies)
    stored[0] = None if changes is None else msgspec.structs.replace(key, **changes)
    return [*found, access.is_withdrawn()]


@pytest.mark.parametrize(
    "changes",
    [
        None,
        {"revoked": PAST},
        {"expires": PAST},
        {"digest": "b" * 64},
        {"companies": ("one",)},
        {"parent_companies": ()},
        {"companies": (), "parent_companies": ()},
        {"fields": ()},
        {"fields": ("goals",)},
        {"display": DisplayLicence.IDX},
    ],
)
def test_access_ends_with_the_key_and_with_any_part_of_what_it_gave(changes: dict[str, Any] | None) -> None:
    assert is_withdrawn(changes, COMPANIES) == [False, True]


@pytest.mark.parametrize(
    "changes",
    [
        {},  # read again
        {"note": "other", "rate": 1, "burst": 1, "tier": "gold", "name": "other", "profile": "compatible"},
        {"successor": "next", "expires": FUTURE},
        {"companies": ("one", "two", "three")},
        {"all_companies": True, "companies": (), "parent_companies": ()},
        {"fields": None},
        {"fields": tuple(FIELD_GROUPS)},
        # The parent's family is named company by company.
        {"companies": ("one", "two", "parent", "child"), "parent_companies": ()},
    ],
)
def test_access_stays_with_a_key_that_gives_as_much_or_more(changes: dict[str, Any]) -> None:
    assert is_withdrawn(changes, COMPANIES) == [False, False]


def test_what_a_request_did_not_use_may_be_taken_from_its_key() -> None:
    assert is_withdrawn({"companies": ("one",), "parent_companies": ()}, COMPANIES, "one") == [False, False]


def test_a_licence_that_is_lifted_withdraws_nothing() -> None:
    assert is_withdrawn({"display": None}, COMPANIES, display=DisplayLicence.IDX) == [False, False]


def test_access_to_all_companies_ends_with_a_list_of_them() -> None:
    assert is_withdrawn({"all_companies": False}, COMPANIES, all_companies=True) == [False, True]


def test_a_company_that_leaves_its_parent_leaves_the_scope() -> None:
    """It now belongs to a company of which the key may read that one alone."""
    assert is_withdrawn({}, MOVED) == [False, True]
    assert is_withdrawn({}, MOVED, "one") == [False, False]
