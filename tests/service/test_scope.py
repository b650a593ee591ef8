"""Which companies a request may read: rules 1 to 6 of `parent_company_id` against every kind of key."""

import datetime as dt
from typing import Any

import pytest

from service.errors import ApiError, Forbidden, InvalidRequest
from service.keys.api_key import ApiKey
from service.scope import CompanyDirectory, ListedCompany, Scope, allowed_scope, resolve_scope

# Two parents with children, and one company without a parent.
DIRECTORY = CompanyDirectory.of(
    [
        ListedCompany("northwest", "100"),
        ListedCompany("acme", "1", "northwest"),
        ListedCompany("birch", "2", "100"),
        ListedCompany("southeast", "200"),
        ListedCompany("cedar", "3", "southeast"),
        ListedCompany("delta", "4"),
    ]
)


def key(**granted: Any) -> ApiKey:
    return ApiKey(key_id="k", name="k", digest="", created=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), **granted)


KEYS = {
    "company": key(companies=("acme",)),
    "company by number": key(companies=("1",)),
    "parent": key(parent_companies=("northwest",)),
    "parent by number": key(parent_companies=("100",)),
    "all": key(all_companies=True),
}

F, I = Forbidden, InvalidRequest  # noqa: E741 - the letters of a table
BOTH = {"acme", "birch"}
Expected = set[str] | type[ApiError] | None

# (platform_company_id, parent_company_id): what a company key, a parent key and a key for all companies get.
TABLE: dict[tuple[str | None, str | None], tuple[Expected, Expected, Expected]] = {
    (None, None): ({"acme"}, {*BOTH, "northwest"}, None),
    ("acme", None): ({"acme"}, {"acme"}, {"acme"}),
    ("1", None): ({"acme"}, {"acme"}, {"acme"}),
    ("birch", None): (F, {"birch"}, {"birch"}),
    ("2", None): (F, {"birch"}, {"birch"}),
    ("northwest", None): (F, {"northwest"}, {"northwest"}),
    ("100", None): (F, {"northwest"}, {"northwest"}),
    ("delta", None): (F, F, {"delta"}),
    ("4", None): (F, F, {"delta"}),
    ("unknown", None): (F, F, I),
    ("999", None): (F, F, I),
    ("ACME", None): (F, F, I),
    (None, "northwest"): (F, BOTH, BOTH),
    (None, "100"): (F, BOTH, BOTH),
    (None, "southeast"): (F, F, {"cedar"}),
    (None, "200"): (F, F, {"cedar"}),
    (None, "unknown"): (F, F, I),
    (None, "999"): (F, F, I),
    (None, "acme"): (F, F, I),
    (None, "delta"): (F, F, I),
    ("1", "northwest"): (F, {"acme"}, {"acme"}),
    ("1", "100"): (F, {"acme"}, {"acme"}),
    ("acme", "northwest"): (F, I, I),
    ("acme", "100"): (F, I, I),
    ("100", "northwest"): (F, I, I),
    ("100", "100"): (F, I, I),
    ("3", "northwest"): (F, F, I),
    ("cedar", "northwest"): (F, F, I),
    ("4", "100"): (F, F, I),
    ("999", "100"): (F, F, I),
    ("unknown", "100"): (F, F, I),
    ("3", "southeast"): (F, F, {"cedar"}),
    ("3", "unknown"): (F, F, I),
    ("1", "unknown"): (F, F, I),
    ("1", "acme"): (F, F, I),
}
COLUMNS = {"company": 0, "company by number": 0, "parent": 1, "parent by number": 1, "all": 2}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("request_", TABLE, ids=str)
def test_the_scope_of_a_request(request_: tuple[str | None, str | None], kind: str) -> None:
    expected = TABLE[request_][COLUMNS[kind]]
    if isinstance(expected, type):
        with pytest.raises(expected):
            resolve_scope(KEYS[kind], DIRECTORY, *request_)
    else:
        scope = resolve_scope(KEYS[kind], DIRECTORY, *request_)
        assert scope.companies == expected
        assert scope.is_explicit is (request_ != (None, None))


@pytest.mark.parametrize("kind", ["company", "parent"])
def test_no_parameter_broadens_what_the_key_may_read(kind: str) -> None:
    granted = [request for request, expected in TABLE.items() if isinstance(expected[COLUMNS[kind]], set)]
    scopes = [resolve_scope(KEYS[kind], DIRECTORY, *request).companies for request in granted]
    allowed = allowed_scope(KEYS[kind], DIRECTORY).companies
    assert allowed is not None
    assert all(scope is not None and scope <= allowed for scope in scopes)
    assert len(scopes) >= 3


def refusal(kind: str, company: str | None, parent: str | None) -> ApiError:
    """Return how a request is refused."""
    with pytest.raises(ApiError) as caught:
        resolve_scope(KEYS[kind], DIRECTORY, company, parent)
    return caught.value


@pytest.mark.parametrize("kind", ["company", "parent"])
@pytest.mark.parametrize(("foreign", "unknown"), [("delta", "theta"), ("4", "9"), ("cedar", "other"), ("200", "999")])
def test_an_unknown_and_a_foreign_company_look_the_same(kind: str, foreign: str, unknown: str) -> None:
    for request in ("{}", None), (None, "{}"), ("{}", "northwest"):
        refused = [refusal(kind, *(part and part.format(value) for part in request)) for value in (foreign, unknown)]
        assert refused[0].status == refused[1].status == 403
        assert refused[0].detail.replace(foreign, unknown) == refused[1].detail
        assert [fault.parameter for fault in refused[0].faults] == [fault.parameter for fault in refused[1].faults]


def test_an_unknown_company_is_named_to_a_key_for_all() -> None:
    assert refusal("all", "theta", None).detail == "platform_company_id: there is no company 'theta'."
    assert refusal("all", None, "theta").detail == "parent_company_id: there is no company 'theta'."
    assert refusal("all", None, "delta").detail == "parent_company_id: 'delta' is not a parent company."


def test_with_a_parent_the_text_says_what_is_wrong_with_the_company() -> None:
    assert "numeric id" in refusal("parent", "acme", "northwest").detail
    assert "not a company under" in refusal("parent", "100", "northwest").detail


def test_a_company_that_is_a_parent_is_none_to_a_key_for_the_company_alone() -> None:
    alone = key(companies=("northwest",))
    assert allowed_scope(alone, DIRECTORY) == Scope(frozenset({"northwest"}))
    with pytest.raises(Forbidden):
        resolve_scope(alone, DIRECTORY, None, "northwest")


def test_a_key_for_several_companies_and_parents_reads_their_union() -> None:
    several = key(companies=("delta", "gone"), parent_companies=("southeast", "gone"))
    assert allowed_scope(several, DIRECTORY) == Scope(frozenset({"delta", "southeast", "cedar"}))


def test_a_key_without_any_company_reads_nothing() -> None:
    assert resolve_scope(key(), DIRECTORY, None, None) == Scope(frozenset())
    assert resolve_scope(key(companies=("gone",)), DIRECTORY, None, None) == Scope(frozenset())


def test_a_new_child_of_a_parent_is_readable_with_the_next_directory() -> None:
    grown = CompanyDirectory.of([ListedCompany("northwest"), ListedCompany("new", parent="northwest")])
    assert resolve_scope(KEYS["parent"], grown, None, "northwest").single_company == "new"


def test_only_a_scope_of_one_company_is_single() -> None:
    assert Scope(frozenset({"acme"})).single_company == "acme"
    assert [Scope(None).single_company, Scope(frozenset()).single_company, Scope(frozenset(BOTH)).single_company] == [
        None,
        None,
        None,
    ]
