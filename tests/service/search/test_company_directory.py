"""The company directory, read from search responses."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

import orjson

from service.scope import CompanyDirectory
from service.search import company_directory
from service.search.company_directory import read_company_directory
from tests.service.stand_in import hit, search_response

ACME = {"id": "acme", "numeric_id": "1", "parent_company_id": "north"}
NORTH = {"id": "north", "numeric_id": "100"}


def test_a_company_is_known_by_key_and_by_number() -> None:
    known = CompanyDirectory.of([ACME, NORTH])
    assert (known.key("acme"), known.key("1"), known.key("2"), known.key("")) == ("acme", "acme", None, None)


def test_a_company_without_a_number_is_known_by_key() -> None:
    assert CompanyDirectory.of([{"id": "acme"}]).keys == {"acme": "acme"}


def test_a_key_counts_before_the_number_of_another_company() -> None:
    assert CompanyDirectory.of([{"id": "1"}, {"id": "acme", "numeric_id": "1"}]).key("1") == "1"


def test_a_parent_is_found_by_key_or_number_wherever_it_stands() -> None:
    birch = {"id": "birch", "parent_company_id": "100"}
    assert CompanyDirectory.of([ACME, birch, NORTH]).children == {"north": frozenset({"acme", "birch"})}


def test_a_parent_that_is_not_there_has_no_children() -> None:
    assert CompanyDirectory.of([ACME]).children == {}


def test_unknown_companies_have_no_keys() -> None:
    assert CompanyDirectory.of([ACME, NORTH]).keys_of(["1", "gone", "north"]) == {"acme", "north"}


async def test_more_companies_than_one_answer_holds_are_all_read(monkeypatch: Any) -> None:
    monkeypatch.setattr(company_directory, "_BATCH_SIZE", 2)
    hits = [hit("companies", name, orjson.dumps({"id": name})) for name in ("a", "b", "c")]
    engine = AsyncMock(search=AsyncMock(side_effect=[search_response(hits[:2]), search_response(hits[2:])]))
    assert set((await read_company_directory(engine, "companies")).keys) == {"a", "b", "c"}
    first, second = (call.args[1] for call in engine.search.await_args_list)
    assert "search_after" not in first
    assert second["search_after"] == ["b"]


async def test_as_many_companies_as_one_answer_holds_are_followed_by_an_empty_one(monkeypatch: Any) -> None:
    monkeypatch.setattr(company_directory, "_BATCH_SIZE", 1)
    only = search_response([hit("companies", "a", b'{"id":"a"}')])
    engine = AsyncMock(search=AsyncMock(side_effect=[only, search_response()]))
    assert set((await read_company_directory(engine, "companies")).keys) == {"a"}


async def test_deleted_companies_are_excluded() -> None:
    engine = AsyncMock(search=AsyncMock(return_value=search_response()))
    assert (await read_company_directory(engine, "companies")).keys == {}
    body = engine.search.await_args.args[1]
    assert body["query"] == {"bool": {"filter": [{"term": {"deleted": False}}]}}
