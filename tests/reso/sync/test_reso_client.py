"""Asking a source: tokens, its rate, its wishes to wait, and sentences where it does not answer."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from cluster.http.headers import parse_retry_after
from cluster.settings import SettingError
from indexer.errors import SourceError
from indexer.reso.client.edmx import parse_entity_sets
from indexer.reso.client.odata import (
    ODataQuery,
    TransientSourceError,
    decode_page,
    decode_record,
    error_detail,
    retry_delay_seconds,
)
from indexer.reso.client.reso_client import ResoClient
from indexer.reso.settings import ResoSettings
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_loop
from tests.reso.server.server_settings import Dialect, RequestLimit, ServerFault, ServerSettings
from tests.reso.sync.open_mirror import put

TOKEN, SECRET = "the-very-token", "the-very-secret"
# Two clocks of one machine.
_CLOCKS_SECONDS = 0.01
PROPERTIES = ODataQuery("Property", ("ListingKey",), page_size=5)


@asynccontextmanager
async def open_client(server: ResoServer, **options: Any) -> AsyncIterator[tuple[ResoClient, list[str]]]:
    waits: list[str] = []
    web = ResoClient(server.url, ResoSettings(**{"rate": 10_000.0, **options}), waits.append)
    await web.open()
    try:
        yield web, waits
    finally:
        await web.close()


def client(server: ResoServer, **options: Any) -> dict[str, Any]:
    return {"token_url": server.token_url, "client_id": "us", "client_secret": SECRET, **options}


async def test_a_token_opens_a_source() -> None:
    async with serve_in_loop(ServerSettings(token=TOKEN)) as server:
        put(server, "Property", "K")
        async with open_client(server, token=f"{TOKEN}\n") as (web, _):
            assert (await web.fetch_page(PROPERTIES)).value == [{"ListingKey": "K"}]


@pytest.mark.parametrize("token", ["", "another-token"])
async def test_a_wrong_token_is_reported_without_repeating_it(token: str) -> None:
    async with serve_in_loop(ServerSettings(token=TOKEN)) as server, open_client(server, token=token) as (web, waits):
        with pytest.raises(SourceError, match=r"returned 401: .*Check BROKERAGE_RESO_TOKEN") as refused:
            await web.fetch_page(PROPERTIES)
        assert "another-token" not in f"{refused.value} {waits}"
        assert len(server.ledger.visits) == 1


async def test_client_credentials_are_exchanged_as_often_as_a_token_ends() -> None:
    settings = ServerSettings(client=("us", SECRET), token_requests=3)
    async with serve_in_loop(settings) as server, open_client(server, **client(server), in_flight=3) as (web, waits):
        put(server, "Property", "K")
        for _ in range(6):
            answers = await asyncio.gather(*(web.fetch_page(PROPERTIES) for _ in range(4)))
            assert [len(answer.value) for answer in answers] == [1] * 4
        server.auth.expire()
        assert len((await web.fetch_page(PROPERTIES)).value) == 1
        assert SECRET not in str(waits)
        # 25 answers, at most 3 of each token, and no token that was not needed.
        assert 9 <= server.auth.issued <= 11


async def test_a_token_that_says_when_it_ends_is_not_used_till_then() -> None:
    settings = ServerSettings(client=("us", SECRET), token_seconds=30)
    async with serve_in_loop(settings) as server, open_client(server, **client(server)) as (web, waits):
        await web.fetch_page(PROPERTIES)
        await web.fetch_page(PROPERTIES)
        assert (server.auth.issued, waits) == (2, [])


async def test_many_requests_may_find_together_that_a_token_has_ended() -> None:
    settings = ServerSettings(client=("us", SECRET))
    async with serve_in_loop(settings) as server, open_client(server, **client(server), in_flight=30) as (web, _):
        await web.fetch_page(PROPERTIES)
        server.auth.expire()
        await asyncio.gather(*(web.fetch_page(PROPERTIES) for _ in range(30)))
        assert server.auth.issued == 2


@pytest.mark.parametrize("fault", [ServerFault.TOO_MANY, ServerFault.TOO_MANY_DATE, ServerFault.UNAVAILABLE])
async def test_a_token_is_waited_for_as_long_as_is_asked(fault: ServerFault) -> None:
    async with serve_in_loop(ServerSettings(client=("us", SECRET), retry_after_seconds=1)) as server:
        server.faults.plan(fault, resource="oauth")
        async with open_client(server, **client(server)) as (web, waits):
            await web.fetch_page(PROPERTIES)
        assert len(waits) == 1
        assert [visit.resource for visit in server.ledger.visits] == ["oauth", "oauth", "Property"]


@pytest.mark.parametrize("name", ["rate", "in_flight", "page_size", "keys_per_request", "timeout_seconds"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_settings_without_which_nothing_is_asked_are_refused(name: str, value: float) -> None:
    with pytest.raises(SettingError, match="cannot be used: it must be more than 0"):
        ResoSettings(**cast("dict[str, Any]", {name: value}))


def test_settings_below_nothing_are_refused() -> None:
    with pytest.raises(SettingError, match="BROKERAGE_RESO_EVENT_MARGIN=-1 cannot be used: it must be at least 0"):
        ResoSettings(event_margin=-1)
    assert ResoSettings(event_margin=0, reconcile_hours=0.0, removal_limit=0.0).event_margin == 0


async def test_the_rate_is_kept_tokens_included() -> None:
    dialect = Dialect(limits=(RequestLimit(0.25, requests=7),))
    settings = ServerSettings(dialect=dialect, client=("us", SECRET), token_requests=1)
    async with (
        serve_in_loop(settings) as server,
        open_client(server, **client(server), rate=20.0, in_flight=1) as (web, _),
    ):
        for _ in range(8):
            await web.fetch_page(PROPERTIES)
        assert server.violations == 0
        assert server.ledger.requests["oauth"] == 8


@pytest.mark.parametrize("fault", [ServerFault.TOO_MANY, ServerFault.TOO_MANY_DATE, ServerFault.UNAVAILABLE])
async def test_all_requests_wait_when_one_is_asked_to(fault: ServerFault) -> None:
    """Except for one that was already in flight."""
    async with (
        serve_in_loop(ServerSettings(retry_after_seconds=2)) as server,
        open_client(server, in_flight=2) as (web, waits),
    ):
        came: list[float] = []
        server.on_request = lambda _visit: came.append(time.time())
        server.faults.plan(fault)
        await asyncio.gather(*(web.fetch_page(PROPERTIES) for _ in range(10)))
    assert len(waits) == 1
    # A date has no parts of seconds.
    until = came[0] + 2 if fault is not ServerFault.TOO_MANY_DATE else int(came[0] + 2)
    assert len(came) == 11
    assert sum(at < until - _CLOCKS_SECONDS for at in came) <= 2


@pytest.mark.parametrize("in_flight", [1, 3])
async def test_no_more_requests_than_configured_are_in_flight(in_flight: int) -> None:
    settings = ServerSettings(faults={ServerFault.SLOW: 1.0}, slow_seconds=0.05, most_faults_in_a_row=10**6)
    async with serve_in_loop(settings) as server, open_client(server, in_flight=in_flight) as (web, _):
        await asyncio.gather(*(web.fetch_page(PROPERTIES) for _ in range(9)))
        assert (server.ledger.running, server.ledger.most_running) == (0, in_flight)


@pytest.mark.parametrize(
    ("url", "said_of_it"),
    [("nonsense", "nonsense is not a valid HTTP URL"), ("ftp://host/x", "is not a valid HTTP URL")],
)
async def test_an_invalid_address_is_reported_at_once(url: str, said_of_it: str) -> None:
    waits: list[str] = []
    web = ResoClient(url, ResoSettings(), waits.append)
    await web.open()
    with pytest.raises(SourceError, match=said_of_it):
        await web.fetch_metadata(parse_entity_sets)
    await web.close()
    assert waits == []


async def test_an_invalid_root_is_reported_and_a_busy_one_is_retried() -> None:
    async with serve_in_loop(ServerSettings(root_path="/odata")) as server:
        async with open_client(server) as (web, _):
            for fault in (ServerFault.HTML, ServerFault.TRUNCATED, ServerFault.BROKEN):
                server.faults.plan(fault, resource="$metadata")
                assert "ListingKey" in (await web.fetch_metadata(parse_entity_sets))["Property"]
        elsewhere = ResoClient(server.url + "/v9", ResoSettings(rate=1000.0), print)
        await elsewhere.open()
        with pytest.raises(SourceError, match=r"returned 404\. Is .*/odata/v9 the root of a RESO Web API"):
            await elsewhere.fetch_metadata(parse_entity_sets)
        await elsewhere.close()


@pytest.mark.parametrize(
    "body",
    [
        b"<html></html>",
        b"<!DOCTYPE html><html></html>",
        b'<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>',
        b"<a/>",
        b"\xff\xfe",
        b"",
    ],
)
def test_an_invalid_description_is_not_read(body: bytes) -> None:
    with pytest.raises(TransientSourceError, match="Is this the root of a RESO Web API"):
        parse_entity_sets(body)


def test_fields_of_base_types_and_of_any_number_of_schemas_count() -> None:
    body = (
        '<Edmx xmlns="urn:edmx"><Schema xmlns="urn:one" Namespace="a"><EntityType Name="Base"><Property Name="K"/>'
        '</EntityType><EntityType Name="P" BaseType="a.Base"><Property Name="N"/><NavigationProperty Name="Media"/>'
        '</EntityType><EntityType Name="Loop" BaseType="b.Loop"><Property Name="L"/></EntityType></Schema><Schema '
        'xmlns="urn:two"><EntityContainer><EntitySet Name="Property" EntityType="a.P"/><EntitySet Name="Other" '
        'EntityType="a.Loop"/></EntityContainer></Schema></Edmx>'
    )
    entity_sets = {name: set(entity.fields) for name, entity in parse_entity_sets(body.encode()).items()}
    assert entity_sets == {"Property": {"K", "N"}, "Other": {"L"}}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"error":{"message":"Why"}}', ": Why"),
        (b'{"error":{"message":{"lang":"en","value":"Why"}}}', ": Why"),
        (b'{"error":{"message":5}}', ""),
        (b'{"error":{"message":null}}', ""),
        (b'{"error":"invalid"}', ""),
        (b"[]", ""),
        (b"<html>", ""),
        (b"\xff", ""),
    ],
)
def test_the_text_of_an_error_is_shown_whatever_its_shape(body: bytes, expected: str) -> None:
    assert error_detail(body) == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("7", 7.0),
        ("999999", 3600.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3600.0),
    ],
)
def test_a_wish_to_wait_is_read_in_both_forms(text: str, seconds: float | None) -> None:
    assert parse_retry_after(text) == seconds


def test_a_source_that_fails_again_and_again_is_asked_ever_more_slowly() -> None:
    for failures in range(1, 40):
        assert 0 <= retry_delay_seconds(TimeoutError(), failures) <= min(60, 0.5 * 2**failures)
    assert retry_delay_seconds(TransientSourceError("", 0.0), 1) == 0
    assert max(retry_delay_seconds(TransientSourceError("", 0.0), 9) for _ in range(50)) > 0
    assert retry_delay_seconds(TransientSourceError("", 5.0), 1) >= 5


def test_halves_of_characters_do_not_make_a_page_unreadable() -> None:
    """As in remarks that were cut at a number of characters."""
    page = rb'{"value":[{"A":"cut \ud83d"},{"A":"\ud83d\uDE00 \\ud83d \\\ude00 \ud83dx\ud83d\ud83d\ude00"}]}'
    assert [row["A"] for row in decode_page(page).value] == ["cut �", "😀 \\ud83d \\� �x�😀"]
    assert decode_record(rb'{"A":"\ude00\ud83d"}') == {"A": "��"}
