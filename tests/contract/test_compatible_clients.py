"""Existing clients of a platform of this shape, over the wire: every call returns what the contract's API returns."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from cluster.connection import connect
from service.app import create_app
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings
from tests.contract.wire_clients import DotNetClient, PhpClient, RemoteRefusal, RubyClient, WireClient, basic
from tests.contract.world import IDENTIFIERS, World
from tests.internals import Internals
from tests.service.raw_http import exchange_one, listening, request

COMPANY = "summit-crest"
UNKNOWN_UUID = "00000000-0000-4000-8000-000000000000"
RESOURCES = ("listings", "sold_listings", "agents", "offices", "teams", "companies")
SCOPED = {"platform_company_id": COMPANY}
WINDOWS: dict[str, dict[str, str]] = {
    "listings": {**SCOPED, "updated_since": "1", "market_status": "all"},
    "sold_listings": {**SCOPED, "sold_since": "1"},
    "agents": {"updated_since": "1"},
    "offices": {},
    "teams": SCOPED,
    "companies": {},
}


@dataclass(frozen=True)
class Compatible:
    """The service on its own connections, and keys without and with the profile."""

    world: World
    port: int
    plain: str
    profiled: str

    def clients(self) -> dict[str, WireClient]:
        """Return each client, the first two by `Accept` and the third by the profile of its key."""
        _, key_id, secret = self.plain.split("_")
        return {
            "Ruby": RubyClient(self.port, key_id, secret),
            "PHP": PhpClient(self.port, "a name of its own", self.plain),
            ".NET": DotNetClient(self.port, "bk_" + self.profiled.split("_")[1], self.profiled.split("_")[2]),
        }


@pytest.fixture(scope="module")
async def compatible(world: World) -> AsyncIterator[Compatible]:
    """The service over the generated data."""
    everything: dict[str, Any] = {"all_companies": True, "rate": None}
    settings = ServiceSettings(key_concurrency=0, failures_per_minute=0, refusals_per_minute=0)
    async with connect(world.connection, connections=2, timeout=60) as client:
        store = KeyStore(client, world.connection.keys_index)
        plain = await store.create(KeyGrant("plain", **everything))
        profiled = await store.create(KeyGrant("profiled", profile="compatible", **everything))
    async with listening(create_app(settings, world.connection), settings) as port:
        yield Compatible(world, port, plain.reveal(), profiled.reveal())


async def truth(world: World, resource: str) -> list[dict[str, Any]]:
    """Return the records of an index as the contract's API returns them."""
    if resource in {"listings", "sold_listings"}:
        return await world.walk(f"/{resource}", **WINDOWS[resource])
    answer = await world.answer(f"/{resource}", page_size=1000, **WINDOWS[resource])
    return list(answer["offices"] if resource == "offices" else answer)


Call = tuple[str, "Callable[[WireClient], Awaitable[Any]]", Any]


def finding(resource: str, identifier: str, **parameters: str) -> Callable[[WireClient], Awaitable[Any]]:
    """Return the call for one record."""
    return lambda client: client.find(resource, identifier, **parameters)


def searching(resource: str, **parameters: str) -> Callable[[WireClient], Awaitable[Any]]:
    """Return the calls for all pages of an index."""
    return lambda client: client.search(resource, **parameters)


async def calls(world: World) -> AsyncIterator[Call]:
    """Yield every call: its name, the call, and what it must return; RemoteRefusal if it must be refused."""
    for resource in RESOURCES:
        records = await truth(world, resource)
        yield f"all {resource}", searching(resource, **WINDOWS[resource]), records
        yield f"an unknown one of {resource}", finding(resource, UNKNOWN_UUID), RemoteRefusal
        for identifier in [str(record[IDENTIFIERS[resource]]) for record in records[:5]]:
            shown = await world.answer(f"/{resource}/{identifier}")
            yield f"{resource} {identifier}", finding(resource, identifier), shown
    for envelope in world.of("agents", COMPANY)[:3]:
        shown = await world.answer(f"/agents/{envelope['record']['agent_uuid']}")
        for identifier in (envelope["record"]["platform_agent_id"], envelope["source_agent_id"]):
            yield f"agent {identifier}", finding("agents", identifier, **SCOPED), shown
    empty = {**WINDOWS["listings"], "agent_uuid": UNKNOWN_UUID}
    yield "listings of an unknown agent", searching("listings", **empty), []
    yield "sales of the future", searching("sold_listings", **SCOPED, sold_since="4000000000"), []
    yield "agents of the future", searching("agents", updated_since="4000000000"), []
    yield "an unknown office", searching("agents", platform_office_id="nowhere"), RemoteRefusal
    yield "an unknown company", searching("teams", platform_company_id="nowhere"), RemoteRefusal
    yield "listings without a company", searching("listings"), RemoteRefusal
    brief = await world.answer("/offices", timestamps_only="true", page_size=1000)
    yield "changes of offices", searching("offices", timestamps_only="true"), brief["offices"]


async def outcome(call: Awaitable[Any]) -> Any:
    """Return what a call returns, or the kind of its failure."""
    try:
        return await call
    except RemoteRefusal as refusal:
        return RemoteRefusal if str(refusal) else refusal
    except Exception as failure:  # counted as a call that failed
        return failure


@pytest.mark.parametrize("name", ["Ruby", "PHP", ".NET"])
async def test_every_call_of_a_client_returns_what_the_contract_returns(compatible: Compatible, name: str) -> None:
    client = compatible.clients()[name]
    try:
        results = {
            call: (await outcome(make(client)), expected) async for call, make, expected in calls(compatible.world)
        }
    finally:
        await client.close()
    failed = [call for call, (found, expected) in results.items() if found != expected]
    print(f"\n{name}: {len(results) - len(failed)} of {len(results)} calls, {len(client.statuses)} requests")
    assert failed == []
    assert len(client.statuses) > len(results)  # some walks have several pages


async def test_the_whole_previous_page_as_a_parameter_is_paging_too(compatible: Compatible) -> None:
    client = compatible.clients()["Ruby"]
    assert isinstance(client, RubyClient)
    for resource, size in (("listings", "2"), ("sold_listings", "200"), ("listings", "1000")):
        found = await client.search_by_previous_page(resource, **WINDOWS[resource], page_size=size)
        assert found == await truth(compatible.world, resource)


FORM = "application/x-www-form-urlencoded"
ACCEPT = "application/vnd.platform+json;version=1"


async def ask(compatible: Compatible, path: str, body: str = "", **headers: str) -> tuple[int, Any, Any]:
    """Send one request with a form, if there is a body, and return status, headers and body."""
    form = {"Content-Type": FORM, "Content-Length": str(len(body))} if body else {}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await exchange_one(compatible.port, request(path, headers={**named, **form}, body=body))
    return answer.status, answer.headers, orjson.loads(answer.body)


async def test_without_the_profile_nothing_of_it_is_there(compatible: Compatible) -> None:
    key = {"x_api_key": compatible.plain}
    status, headers, problem = await ask(compatible, "/v1/agents", "updated_since=1", **key)
    assert (status, problem["code"], problem["status"]) == (400, "body-refused", 400)
    assert "status_code" not in problem
    assert headers["Content-Type"] == "application/problem+json"
    status, headers, agents = await ask(compatible, "/v1/agents?updated_since=1", **key)
    assert (status, type(agents)) == (200, list)
    assert "Set-Cookie" not in headers
    assert "Authorization" not in headers["Vary"]
    assert (await ask(compatible, "/api/agents", **key))[0] == 404
    assert (await ask(compatible, "/v1/agents?_=1", **key))[0] == 400
    assert (await ask(compatible, "/v1/agents/x?agent_uuid=x", **key))[0] == 400
    assert (await ask(compatible, "/v1/agents", Authorization=basic("x", compatible.plain)))[0] == 401
    # As before, the credentials of a proxy do not disturb.
    assert (await ask(compatible, "/v1/companies", **key, Authorization=basic("proxy", "secret")))[0] == 200


@pytest.mark.parametrize("by_key", [True, False], ids=["by the key", "by Accept"])
async def test_the_profile_comes_with_the_key_or_the_accept_header(compatible: Compatible, by_key: bool) -> None:
    chosen = {"x_api_key": compatible.profiled} if by_key else {"x_api_key": compatible.plain, "Accept": ACCEPT}
    status, headers, page = await ask(compatible, "/v1/agents?page_size=1&_=7", "updated_since=1&wrong=1", **chosen)
    assert (status, page["page_number"], len(page["agents"])) == (200, 1, 1)
    assert headers["Set-Cookie"].startswith("session=none;")
    assert headers["Warning"] == '299 - "Unknown parameters were ignored: 2"'
    assert {"Authorization", "Accept"} <= {*headers["Vary"].split(", ")}
    assert type((await ask(compatible, "/v1/agents?envelope=false&updated_since=1", **chosen))[2]) is list
    status, headers, problem = await ask(compatible, "/api/teams/unknown", **chosen)
    assert (status, problem["status"], problem["status_code"]) == (404, "fail", 404)
    assert problem["messages"] == [problem["detail"]]
    assert headers["Content-Type"].startswith("application/json")


async def test_the_profile_weakens_neither_scope_nor_checks_of_values(compatible: Compatible) -> None:
    chosen = {"x_api_key": compatible.profiled}
    async with connect(compatible.world.connection, connections=2, timeout=60) as client:
        store = KeyStore(client, compatible.world.connection.keys_index)
        narrow = (await store.create(KeyGrant("narrow", companies=(COMPANY,), profile="compatible"))).reveal()
    foreign = "platform_company_id=tidewater-brokers"
    assert (await ask(compatible, "/api/teams", foreign, Authorization=basic("", narrow)))[0] == 403
    for form in ("page_number=0", "updated_since=x", "platform_office_id=a&platform_office_id=b", "updated_since=%zz"):
        assert (await ask(compatible, "/api/agents", form, **chosen))[0] == 400
    assert (await ask(compatible, "/api/agents", "page_size=" + "1" * 8_180, **chosen))[0] == 414
    assert (await ask(compatible, "/api/agents", "updated_since=1&updated_since=2", **chosen))[0] == 400
    for form in ("city=a b", "city=a#b", "city=Zürich", "city=a\r\nb"):
        status, _, problem = await ask(compatible, "/api/agents", form, **chosen)
        assert (status, problem["code"]) == (400, "malformed-request")
    assert (await ask(compatible, f"/api/agents/x?agent_uuid={UNKNOWN_UUID}", **chosen))[0] == 400
    for path in ("/livez", "/v1/openapi.json", "/v1/reso/Property", "/docs", "/"):
        assert (await ask(compatible, path, "a=b", **chosen))[0] == 400


@pytest.mark.parametrize(
    ("form", "ignored"),
    [
        ("&".join(f"x{n}=1" for n in range(101)), 101),
        ("&".join("previous_page[listings][]=%23%3C" + "x" * 60 for _ in range(1000)), 1),
        ("x=%zz&x=1&y=%ff&z", 2),
        ("x=" + "y" * 9_000, 1),
    ],
    ids=["many", "repeated", "not UTF-8, or without a value", "long"],
)
async def test_unknown_parameters_are_dropped_before_anything_is_checked(
    compatible: Compatible, form: str, ignored: int
) -> None:
    chosen = {"x_api_key": compatible.profiled}
    # The name of a known one may be escaped.
    status, headers, page = await ask(compatible, "/api/agents?page%5Fsize=1", f"{form}&updated_since=1", **chosen)
    assert (status, len(page["agents"])) == (200, 1)
    assert headers["Warning"] == f'299 - "Unknown parameters were ignored: {ignored}"'
    # Nothing of it without the profile, nor in the URL, where the length is checked before the key.
    assert (await ask(compatible, f"/v1/agents?{form}", x_api_key=compatible.plain))[0] in {400, 414}
    if len(form) < 8_000 and "&x" not in form:
        assert (await ask(compatible, f"/api/agents?{form}", **chosen))[0] == 200


async def test_a_form_has_at_most_so_many_bytes(compatible: Compatible) -> None:
    chosen = {"x_api_key": compatible.plain, "Accept": ACCEPT}
    status, _, _ = await ask(compatible, "/api/companies", "x=" + "y" * (262_144 - 2), **chosen)
    assert status == 200
    status, _, problem = await ask(compatible, "/api/companies", "x=" + "y" * (262_144 - 1), **chosen)
    assert (status, problem["messages"]) == (400, ["A form may have 262144 bytes; this one has 262145."])


@pytest.mark.parametrize("empty", ["agent_uuid", "platform_agent_id=", "source_agent_id=", "platform_office_id"])
async def test_a_filter_by_an_identifier_that_is_nil_is_refused_and_not_ignored(
    compatible: Compatible, empty: str
) -> None:
    """Every record would match."""
    chosen, name = {"x_api_key": compatible.profiled}, empty.rstrip("=")
    for sent in (f"{empty}&updated_since=1", f"platform_company_id={COMPANY}&{empty}"):
        status, _, problem = await ask(compatible, "/api/listings", sent, **chosen)
        wanted = f"{name}: has no value, and without it every record would match. Send one, or leave it out."
        assert (status, problem["messages"][:1]) == (400, [wanted])
    # What is given besides identifies the record, and an empty cursor is the first page.
    (agent,) = compatible.world.of("agents", COMPANY)[:1]
    path = f"/api/agents/{agent['record']['agent_uuid']}"
    assert (await ask(compatible, path, f"{empty}&platform_company_id={COMPANY}", **chosen))[0] == 200
    first = f"platform_company_id={COMPANY}&last_platform_listing_id&market_status=&parent_company_id="
    assert (await ask(compatible, "/api/listings", first, **chosen))[0] == 200


async def test_a_wrong_path_is_not_found_also_with_a_form(compatible: Compatible) -> None:
    chosen = {"x_api_key": compatible.plain, "Accept": ACCEPT}
    for path in ("/api/listing", "/v1/nothing", "/nothing"):
        status, _, problem = await ask(compatible, path, "updated_since=1", **chosen)
        assert (status, problem["status"], problem["detail"]) == (404, "fail", "There is nothing at this path.")
    # A root that ends in a slash.
    assert (await ask(compatible, "//api/companies/", "page=1", **chosen))[0] == 200
    assert (await ask(compatible, "//livez", "page=1", **chosen))[0] == 400


async def test_basic_without_a_key_gets_advice_for_basic(compatible: Compatible) -> None:
    for path, header in (("/v1/companies", ACCEPT), ("/api/companies", "*/*")):
        wrong = basic("somebody", "secret")
        status, _, problem = await ask(compatible, path, Authorization=wrong, Accept=header)
        assert status == 401
        assert problem["detail"] == (
            "The user name is not the id of an API key. Send what is between the two underscores of the key as the "
            "user name, and what follows as the password."
        )
    status, _, problem = await ask(compatible, "/v1/companies", Authorization=basic("proxy", "secret"))
    assert (status, problem["detail"].startswith("Send an API key in the x-api-key header")) == (401, True)


async def test_basic_credentials_that_are_wrong_are_refused_with_one_text(compatible: Compatible) -> None:
    _, key_id, secret = compatible.profiled.split("_")
    wrong = [("", compatible.profiled[:-1]), (key_id, secret[::-1]), ("0123456789", secret), ("", "bk_")]
    for user, password in wrong:
        status, _, problem = await ask(compatible, "/api/companies", Authorization=basic(user, password))
        assert (status, problem["detail"]) == (401, "The API key is not valid.")
    for header in ("", "Digest x"):
        status, _, problem = await ask(compatible, "/api/companies", Authorization=header)
        assert (status, problem["detail"].startswith("Send an API key")) == (401, True)


def _form(compatible: Compatible, body: str, length: int) -> bytes:
    """Return a request with a form that claims a length, on a connection that stays open."""
    lines = [f"x-api-key: {compatible.profiled}", f"Content-Type: {FORM}", f"Content-Length: {length}"]
    return "\r\n".join(["GET /api/teams HTTP/1.1", "Host: x", *lines, "", body]).encode()


async def test_nothing_behind_a_form_is_taken_for_a_request(compatible: Compatible) -> None:
    smuggled = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    form = "platform_company_id=summit-crest"
    for sent in (_form(compatible, form + smuggled, len(form)), _form(compatible, form, len(form))):
        for pieces in ([sent], [sent[:-20], sent[-20:]]):
            answer = await exchange_one(compatible.port, *pieces)
            assert (answer.status, answer.headers["Connection"]) == (200, "close")


async def test_a_form_that_ends_early_is_not_a_defect_of_the_service(
    compatible: Compatible, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", compatible.port)
    writer.write(_form(compatible, "platform_company_id=", 200))
    await asyncio.sleep(0.3)
    writer.close()
    await writer.wait_closed()
    # Behind it, another request is handled as always.
    assert (await ask(compatible, "/api/companies", x_api_key=compatible.profiled))[0] == 200
    assert "Traceback" not in caplog.text
    assert " failed" not in caplog.text


async def test_a_form_that_never_arrives_is_not_waited_for(compatible: Compatible, internals: Internals) -> None:
    internals(compatible_form_seconds=0.05)
    answer = await exchange_one(compatible.port, _form(compatible, "platform_company_id=", 200))
    assert (answer.status, answer.headers["Connection"]) == (400, "close")
    assert "The form in the body did not arrive within" in answer.body.decode()


async def test_a_key_has_few_requests_whose_form_has_not_arrived(compatible: Compatible, internals: Internals) -> None:
    """Neither a slot nor a rate limits them before their form is there."""
    internals(compatible_waiting_forms=2, compatible_form_seconds=60.0)
    writers: list[asyncio.StreamWriter] = []
    for _ in range(2):
        _, writer = await asyncio.open_connection("127.0.0.1", compatible.port)
        writer.write(_form(compatible, "platform_company_id=", 200))
        writers.append(writer)

    async def answer(length: int) -> int:
        form = "platform_company_id=summit-crest"
        return (await exchange_one(compatible.port, _form(compatible, form, len(form) + length))).status

    # Until both have been read by the service.
    await asyncio.sleep(0.3)
    assert (await answer(100), await answer(0)) == (429, 200)
    for writer in writers:
        writer.close()
        await writer.wait_closed()
    await asyncio.sleep(0.3)
    internals(compatible_form_seconds=0.05)
    assert await answer(100) == 400
