"""How Elasticsearch runs the service's own searches: counts of its profile, not times.

A page of one company is a seek: what it touches does not grow with its depth. That hangs on three declarations, each of
which a test here misses when it is gone: the index sort, the feed key that is not indexed, and the skipper.
"""

import datetime as dt
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings
from indexer import IndexerContext, IndexerSettings, RebuildRequest, open_source, reindex
from mappings import AGENT, COMPANY, LISTING, Resource
from service.app import create_app
from service.keys.store import KeyGrant, KeyStore
from service.resources.references import deactivation_clause
from service.scope import Scope
from service.search.pages import deep_page_body, find_page_start, search_deep_page
from service.search.query import Clause, Selection, at_or_after, numbered_body, terms, walk_body, window_start
from service.search.responses import parse_hits, total_hits
from service.settings import ServiceSettings
from tests.conftest import open_installation
from tests.contract.search_profile import SearchProfile
from tests.records import envelope, write

_COMPANIES = ("birch", "cedar", "maple")
# More than two intervals of the skipper, 4,096 documents each, lie in front of the last page.
_LARGE = 9_000
_SMALL = 1_500
_AGENTS = 12_000  # numbered pages begin to seek at 10,000
_RECENT = 100  # one record in so many was updated within the default window
_PAGE = 200
_LONG_AGO = 1
_DEEP = f"{_LARGE * 97 // 100:06}"
_ONE = Scope(frozenset({"cedar"}))
_IN_USE = deactivation_clause({"deactivated": None}), at_or_after("clock", _LONG_AGO)


@dataclass
class ProfiledService:
    """The indices, what asks them, and the service over them."""

    client: AsyncElasticsearch
    connection: ConnectionSettings
    http: TestClient[Any, Any]
    key: str

    async def plan(self, resource: Resource, body: dict[str, Any]) -> SearchProfile:
        return SearchProfile.from_response(await self.ask(resource, body | {"profile": True}))

    async def ask(self, resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
        """Return the parsed answer to a body."""
        answer = await self.client.search(index=self.connection.alias(resource), body=body)
        return dict(answer)


def _listing(company: str, number: int, now: int) -> dict[str, Any]:
    updated = now if number % _RECENT == 0 else 10
    record = {"PlatformListingId": f"{number:06}-{company}", "Status": ("Active", "Sold")[number % 2]}
    light: dict[str, Any] = {name: [] for name in ("ListingImages", "OpenHouse", "PropertyFeatures")}
    return envelope(LISTING, record | light, platform_company_id=company, updated_at=_iso(updated))


def _iso(second: int) -> str:
    return dt.datetime.fromtimestamp(second, dt.UTC).isoformat()


def _uuid(number: int) -> str:
    return f"{number:08}-5f0d-4f35-9d3c-111111111111"


def _agent(number: int) -> dict[str, Any]:
    return envelope(AGENT, {"agent_uuid": _uuid(number)}, platform_company_id="cedar")


@pytest.fixture(scope="module")
async def engines(engine_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProfiledService]:
    """Listings of three companies and agents of one, built by the real indexer into one segment each."""
    folder, now = tmp_path_factory.mktemp("plans"), window_start() + 3600
    companies = [
        envelope(COMPANY, {"platform_company_id": key, "numeric_id": str(9000 + at)})
        for at, key in enumerate(_COMPANIES)
    ]
    sizes = dict.fromkeys(_COMPANIES, _SMALL) | {"cedar": _LARGE}
    listings = [_listing(company, number, now) for company, size in sizes.items() for number in range(size)]
    write(folder, {COMPANY: companies, LISTING: listings, AGENT: [_agent(number) for number in range(_AGENTS)]})
    async with open_installation(engine_url) as (client, connection):
        settings = IndexerSettings(dead_letter_folder=str(folder / "dead-letters"), green_seconds=5)
        with open_source(str(folder)) as source:
            summary = await reindex(
                IndexerContext(client, connection, settings), source, RebuildRequest([COMPANY, LISTING, AGENT])
            )
        assert summary.exit_code == 0
        text = await KeyStore(client, connection.keys_index).create(KeyGrant("all", all_companies=True, rate=None))
        async with TestClient(TestServer(create_app(ServiceSettings(), connection))) as http:
            yield ProfiledService(client, connection, http, text.reveal())


def _walk(after: str | None, *clauses: Clause, scope: Scope = _ONE) -> dict[str, Any]:
    return walk_body(Selection(LISTING, scope, clauses or (at_or_after("clock", _LONG_AGO),)), _PAGE, after)


async def test_a_page_seeks_and_touches_no_more_at_97_percent_than_at_the_start(engines: ProfiledService) -> None:
    first = await engines.plan(LISTING, _walk(None))
    deep = await engines.plan(LISTING, _walk(_DEEP))
    assert first.ranges("feed_key") == deep.ranges("feed_key") == ["XSortedSetDocValuesRangeQuery"]
    # Behind a cursor there is one comparison more for each document that the range leads to.
    assert (first.collector, deep.collector) == ("SimpleFieldCollector", "PagingFieldCollector")
    assert len(first.identifiers) == len(deep.identifiers) == _PAGE + 1
    assert deep.identifiers[0] == f"{_DEEP}-cedar"
    # The page, the record behind it, and the step that finds the page full.
    assert (first.documents_visited, deep.documents_visited) == (_PAGE + 2, _PAGE + 2)


async def test_a_page_reads_each_source_once_and_copies_it_as_it_is_stored(engines: ProfiledService) -> None:
    for after in (None, _DEEP):
        plan = await engines.plan(LISTING, _walk(after))
        assert (plan.sources_loaded, plan.copied_raw) == (_PAGE + 1, _PAGE + 1)


@pytest.mark.parametrize("after", [None, _DEEP])
async def test_the_records_of_a_page_lie_side_by_side(engines: ProfiledService, after: str | None) -> None:
    """More than ten neighbours are what makes Elasticsearch read the stored fields in one go."""
    body = _walk(after)
    body.pop("search_after", None)  # it must have as many values as the sort
    answer = await engines.ask(LISTING, body | {"sort": [*body["sort"], "_doc"], "_source": False})
    places = [hit["sort"][1] for hit in answer["hits"]["hits"]]
    assert places == list(range(places[0], places[0] + _PAGE + 1))


async def test_the_default_window_is_led_by_the_clock_where_few_records_match(engines: ProfiledService) -> None:
    """One record in a hundred matches: a page is not paid for with the hundred-fold of documents."""
    page = 10
    body = walk_body(Selection(LISTING, _ONE, (at_or_after("clock", window_start()),)), page, None)
    plan = await engines.plan(LISTING, body)
    assert plan.identifiers == tuple(f"{number * _RECENT:06}-cedar" for number in range(page + 1))
    assert "IndexOrDocValuesQuery" in plan.queries
    assert plan.documents_visited <= page + 4


async def test_a_filter_that_half_of_the_records_pass_costs_their_double_at_any_depth(engines: ProfiledService) -> None:
    clauses = at_or_after("clock", _LONG_AGO), terms("status", ["Active", "Pending", "Contingent"])
    depths = None, f"{_LARGE // 2:06}"
    plans = [await engines.plan(LISTING, _walk(after, *clauses)) for after in depths]
    assert [len(plan.identifiers) for plan in plans] == [_PAGE + 1] * 2
    assert all(plan.documents_visited <= 2 * (_PAGE + 2) for plan in plans)


@pytest.mark.parametrize("scope", [Scope(frozenset({"birch", "cedar"})), Scope(None)])
async def test_several_companies_begin_behind_the_cursor(engines: ProfiledService, scope: Scope) -> None:
    """What lies in front of the cursor is skipped by the skipper's intervals."""
    first = await engines.plan(LISTING, _walk(None, scope=scope))
    deep = await engines.plan(LISTING, _walk(_DEEP, scope=scope))
    assert deep.ranges("id") == ["XSortedSetDocValuesRangeQuery"]
    assert deep.identifiers[0] == f"{_DEEP}-cedar"
    assert deep.documents_visited < first.documents_visited


async def test_a_numbered_page_seeks_its_company_and_counts_it(engines: ProfiledService) -> None:
    selection = Selection(AGENT, _ONE, _IN_USE)
    plan = await engines.plan(AGENT, numbered_body(selection, 0, 100))
    assert plan.ranges("feed_key") == ["XSortedSetDocValuesRangeQuery"]
    assert plan.identifiers == tuple(_uuid(number) for number in range(100))
    assert plan.documents_visited == _AGENTS + 1


@pytest.mark.parametrize("scope", [_ONE, Scope(None)], ids=["one company", "all"])
async def test_a_deep_numbered_page_begins_near_its_place(engines: ProfiledService, scope: Scope) -> None:
    selection, offset, size = Selection(AGENT, scope, _IN_USE), _AGENTS - 500, 100

    async def search(body: dict[str, object]) -> bytes:
        return orjson.dumps(await engines.ask(AGENT, body))

    place = await find_page_start(search, selection, offset)
    body = deep_page_body(selection, place, offset, size, timestamps_only=False)
    plan = await engines.plan(AGENT, body)
    assert place.total == _AGENTS
    assert plan.identifiers == tuple(_uuid(number) for number in range(offset, offset + size))
    # What is left in front is a matter of marks that were drawn, here always the same ones.
    assert body["from"] == offset - place.before < _AGENTS // 3
    collected_whole = await engines.plan(AGENT, numbered_body(selection, offset, size))
    assert plan.documents_visited < collected_whole.documents_visited


async def test_a_deep_page_compares_few_records_with_each_mark_and_sorts_few(engines: ProfiledService) -> None:
    selection, offset, plans = Selection(AGENT, Scope(None), _IN_USE), _AGENTS - 1_500, list[SearchProfile]()

    async def search(body: dict[str, object]) -> bytes:
        answer = await engines.ask(AGENT, body | {"profile": True})
        plans.append(SearchProfile(answer["profile"]["shards"][0], ()))
        return orjson.dumps(answer)

    response, _ = await search_deep_page(search, selection, offset, 20, timestamps_only=False)
    assert [hit["_id"] for hit in parse_hits(response)] == [_uuid(number) for number in range(offset, offset + 20)]
    sample, count, _ = plans
    assert sample.documents_visited < _AGENTS // 64
    assert count.documents_aggregated("ranks") < _AGENTS // 2
    assert total_hits(response) < _AGENTS // 4


async def test_a_deep_page_is_full_although_records_went_after_they_were_counted(engines: ProfiledService) -> None:
    # Most of those between the two marks of the page, which are always the same ones.
    size, gone = 100, {"range": {"id": {"gte": _uuid(9_400), "lt": _uuid(10_900)}}}

    async def search(body: dict[str, Any]) -> bytes:
        if body["size"] == size:
            body |= {"query": {"bool": {"filter": [body["query"]], "must_not": [gone]}}}
        return orjson.dumps(await engines.ask(AGENT, body))

    selection = Selection(AGENT, Scope(None), _IN_USE)
    response, total = await search_deep_page(search, selection, 10_000, size, timestamps_only=False)
    assert (len(parse_hits(response)), total) == (size, _AGENTS)


@pytest.mark.parametrize("company", ["cedar", None])
@pytest.mark.parametrize("brief", ["false", "true"])
@pytest.mark.parametrize("number", [100, 101, 111, 120, 121])
async def test_a_deep_numbered_page_is_the_one_of_its_number(
    engines: ProfiledService, company: str | None, brief: str, number: int
) -> None:
    """Page 101 is the first that begins at 10,000, page 120 the last, page 121 past it."""
    query = {"page_number": str(number), "updated_since": str(_LONG_AGO), "timestamps_only": brief}
    query |= {"platform_company_id": company} if company else {}
    async with engines.http.get("/v1/agents", params=query, headers={"x-api-key": engines.key}) as response:
        page = [agent["agent_uuid"] for agent in await response.json()]
    begins = (number - 1) * 100
    assert page == [_uuid(at) for at in range(begins, min(begins + 100, _AGENTS))]
    assert (response.headers["X-Total-Count"], response.headers["X-Total-Pages"]) == ("12000", "120")
