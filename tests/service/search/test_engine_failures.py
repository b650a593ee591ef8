"""Failures of Elasticsearch and what the client sees: never a page that lacks rows, never internal details."""

from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from pytest_aiohttp.plugin import AiohttpClient

from cluster.connection import ConnectionSettings
from mappings.stored_document import encode_document
from service.app import create_app
from service.keys.api_key import generate_key
from service.settings import ServiceSettings
from tests.service.conftest import Open
from tests.service.stand_in import Reply, StandIn, hit, refusal, search_response

MEMBERS = {"type", "title", "status", "detail", "instance", "code", "messages", "errors", "request_id"}
INSIDES = ["secret-node-7", "exception", "shard", "Traceback", "listings/_search", "127.0.0.1", "elastic", "feed_key"]

PARSED = "application/vnd.elasticsearch+json"
# Answers to the look-up of a document or to a search that are none.
STRANGE = [
    "a login page",
    "an answer in HTML",
    "an answer without shards",
    "a gateway finds nothing",
    "a gateway redirects",
]

HIT = hit("listings", "L1", encode_document(b'{"id":"L1"', 1, 1, b'{"a":{"b":[1]}}'))
CUT = search_response([HIT, HIT])

REFUSED: dict[str, tuple[Reply, int]] = {
    "a shard failed": (Reply(body=search_response(failed=1)), 503),
    "every shard failed": (Reply(body=search_response(failed=3)), 503),
    "time ran out": (Reply(body=search_response(timed_out=True)), 504),
    "its queue is full": (refusal(429, "es_rejected_execution_exception"), 503),
    "a breaker tripped": (refusal(429, "circuit_breaking_exception"), 503),
    "the search timed out": (refusal(429, "search_timeout_exception"), 504),
    "the search timed out as 504": (refusal(504, "search_timeout_exception"), 504),
    "no shard is there": (refusal(503, "search_phase_execution_exception"), 503),
    "the index is missing": (refusal(404, "index_not_found_exception"), 503),
    "a gateway is between": (refusal(502, "bad_gateway"), 503),
    "a gateway gave up": (refusal(504, "gateway_timeout"), 503),
    "an error has no body": (Reply(status=503, body=b""), 503),
    "a gateway speaks plain text": (Reply(status=503, body=b"no healthy upstream", content_type="text/plain"), 503),
    "a gateway speaks HTML": (Reply(status=502, body=b"<html>bad gateway</html>", content_type="text/html"), 503),
    "a gateway speaks HTML of another kind": (Reply(status=403, body=b"<html/>", content_type="text/html"), 500),
    "a gateway cannot spell": (Reply(status=503, body=b"\xff\xfe", content_type="text/plain"), 503),
    "a gateway halves a character": (Reply(status=503, body=b"\xed\xa0\x80", content_type="text/html"), 503),
    "a gateway redirects": (Reply(status=301, body=b"<html/>", content_type="text/html"), 500),
    "a gateway finds nothing": (Reply(status=404, body=b"<html/>", content_type="text/html"), 503),
    "a login page": (Reply(body=b"<html>log in</html>", content_type="text/html", headers={}), 503),
    "an answer of another type": (Reply(body=search_response(), content_type="application/cbor"), 503),
    "an answer in HTML": (Reply(body=b"<html/>", content_type="text/html"), 503),
    "an answer in another JSON": (Reply(body=search_response(), content_type=PARSED), 503),
    "an error in another JSON": (Reply(status=503, body=b'{"error":1}', content_type=PARSED), 503),
    "an answer without shards": (Reply(body=b"{}"), 503),
    "a response that is not an object": (Reply(body=b"[]"), 503),
    "an empty answer": (Reply(body=b""), 503),
    "the query is refused": (refusal(400, "x_content_parse_exception"), 500),
    "the service may not read": (refusal(403, "security_exception"), 500),
    "the credentials are wrong": (refusal(401, "security_exception"), 500),
    "it fails itself": (refusal(500, "null_pointer_exception"), 500),
    "a shard is not accounted for": (Reply(body=search_response().replace(b'"total":3', b'"total":4', 1)), 503),
    "it stopped early": (Reply(body=search_response().replace(b"{", b'{"terminated_early":true,', 1)), 503),
    "an answer to something else": (Reply(body=b'{"_id":"x","found":true,"_source":{}}'), 503),
    "an operator cancelled the search": (refusal(400, "task_cancelled_exception"), 503),
    "the index is closed": (refusal(400, "index_closed_exception"), 503),
    "a node left": (refusal(502, "node_disconnected_exception"), 503),
    "a gateway waited for the request": (refusal(408, "request_timeout"), 503),
    "the answer is cut between two records": (Reply(body=CUT[: CUT.index(b',{"_index"')]), 503),
    "the answer is cut within a record": (Reply(body=CUT[: CUT.index(b"]}}") + 3]), 503),
    "the answer lacks its last byte": (Reply(body=CUT[:-1]), 503),
    "the answer is cut short": (Reply(body=search_response()[:40]), 503),
}
CODES = {500: "internal-error", 503: "temporarily-unavailable", 504: "deadline-passed"}


async def refused(api: TestClient[Any, Any], stand_in: StandIn, path: str = "/v1/listings") -> Any:
    """Return the response to a request for an index: a problem document without internal details."""
    stand_in.add("companies", "acme", {}, numeric_id="1")
    response = await api.get(f"{path}?platform_company_id=acme", headers={"x-api-key": stand_in.grant()})
    assert response.content_type == "application/problem+json"
    problem = await response.json()
    assert problem.keys() == MEMBERS
    assert [inside for inside in INSIDES if inside in await response.text()] == []
    assert problem["request_id"] == response.headers["X-Request-Id"]
    assert (problem["status"], problem["code"]) == (response.status, CODES[response.status])
    assert ("Retry-After" in response.headers) is (response.status in {503, 504})
    return response


@pytest.mark.parametrize("path", ["/v1/listings", "/v1/agents"])
@pytest.mark.parametrize("fault", REFUSED)
async def test_a_search_fails_when(api: TestClient[Any, Any], stand_in: StandIn, fault: str, path: str) -> None:
    reply, status = REFUSED[fault]
    stand_in.out(reply, "listings", "agents")
    assert (await refused(api, stand_in, path)).status == status


@pytest.mark.parametrize("index", ["api_keys", "companies", "control", "listings"])
@pytest.mark.parametrize("fault", ["no shard is there", "its queue is full", "the index is missing"])
async def test_whatever_index_is_away_the_answer_is_503(
    api: TestClient[Any, Any], stand_in: StandIn, fault: str, index: str
) -> None:
    stand_in.out(REFUSED[fault][0], index)
    assert (await refused(api, stand_in)).status == 503


@pytest.mark.parametrize("index", ["api_keys", "companies", "control", "listings"])
@pytest.mark.parametrize("fault", STRANGE)
async def test_whatever_index_answers_strangely_it_is_a_problem(
    api: TestClient[Any, Any], stand_in: StandIn, fault: str, index: str
) -> None:
    reply, status = REFUSED[fault]
    stand_in.out(reply, index)
    assert (await refused(api, stand_in)).status == status


@pytest.mark.parametrize("index", ["api_keys", "companies", "control", "listings"])
async def test_an_answer_slower_than_the_deadline_is_504(open_api: Open, stand_in: StandIn, index: str) -> None:
    stand_in.out(Reply(delay=30.0), index)
    assert (await refused(await open_api(deadline_seconds=0.3), stand_in)).status == 504


async def test_answers_that_are_slow_together_are_504(open_api: Open, stand_in: StandIn) -> None:
    companies = search_response([hit("companies", "acme", b'{"id":"acme"}')])
    stand_in.out(Reply(body=companies, delay=0.2), "companies")
    stand_in.out(Reply(body=search_response(), delay=0.2), "listings")
    assert (await refused(await open_api(deadline_seconds=0.3), stand_in)).status == 504


async def test_a_refused_connection_is_503(aiohttp_client: AiohttpClient, unused_tcp_port: int) -> None:
    connection = ConnectionSettings(url=(f"http://127.0.0.1:{unused_tcp_port}",))
    api = await aiohttp_client(create_app(ServiceSettings(), connection))
    response = await api.get("/v1/companies", headers={"x-api-key": generate_key().reveal()})
    assert response.status == 503
    assert (await response.json()).keys() == MEMBERS


async def test_a_server_that_is_not_elasticsearch_is_503(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    stand_in.out(Reply(body=search_response(), headers={}))
    assert (await refused(api, stand_in)).status == 503


async def test_a_failed_search_is_not_repeated(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    stand_in.out(REFUSED["its queue is full"][0], "listings")
    await refused(api, stand_in)
    assert len([path for path, _ in stand_in.asked if path == "/listings/_search"]) == 1


async def test_searches_refuse_partial_results_and_time_out_before_the_deadline(
    open_api: Open, stand_in: StandIn
) -> None:
    api = await open_api(deadline_seconds=7.5)
    await api.get("/v1/companies", headers={"x-api-key": stand_in.grant()})
    expected = {"allow_partial_search_results": "false", "timeout": "7000ms"}
    searches = [
        options for (path, _), options in zip(stand_in.asked, stand_in.options, strict=True) if "_search" in path
    ]
    assert len(searches) > 1
    assert [options for options in searches if options != expected] == []


async def test_the_reason_is_logged_with_the_request_id(
    api: TestClient[Any, Any], stand_in: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    stand_in.out(REFUSED["the query is refused"][0], "listings")
    response = await refused(api, stand_in)
    (record,) = [record for record in caplog.records if response.headers["X-Request-Id"] in record.getMessage()]
    assert "x_content_parse_exception" in caplog.text
    assert record.levelname == "ERROR"


async def test_what_is_missing_is_logged_as_a_sentence(
    api: TestClient[Any, Any], stand_in: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    stand_in.out(REFUSED["the index is missing"][0], "listings")
    await refused(api, stand_in)
    assert "Elasticsearch responded 404: scripted index_not_found_exception in secret-node-7" in caplog.text


async def test_no_log_line_carries_the_key(
    api: TestClient[Any, Any], stand_in: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    stand_in.add("companies", "acme", {})
    key = stand_in.grant()
    for reply, status in REFUSED.values():
        stand_in.out(reply, "listings")
        response = await api.get(f"/v1/listings?platform_company_id=acme&api-key={key}")
        assert response.status == status
    assert "secret-node-7" in caplog.text
    assert key not in caplog.text


async def test_the_service_answers_again_after_an_outage(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    stand_in.out(REFUSED["no shard is there"][0])
    assert (await refused(api, stand_in)).status == 503
    stand_in.replies.clear()
    response = await api.get("/v1/companies", headers={"x-api-key": stand_in.grant()})
    assert response.status == 200
