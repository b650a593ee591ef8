"""Keys over HTTP: both schemes, one text for whatever is wrong, and what an outage does not take away."""

import datetime as dt
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import msgspec
import pytest
from aiohttp.test_utils import TestClient
from multidict import MultiDict

from service.errors import Unauthorized
from service.keys.api_key import ApiKey, KeyText, generate_key
from service.keys.authentication import confirm
from tests.service.conftest import Open
from tests.service.stand_in import StandIn, refusal

PAST, FUTURE = dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2200, 1, 1, tzinfo=dt.UTC)
NOT_VALID = "The API key is not valid."
SEVERAL = "Send one API key, once in the header or once in the query. The same key may be in both."
MISSING = "Send an API key in the x-api-key header or the api-key query parameter."


async def ask(
    api: TestClient[Any, Any], headers: list[str] | None = None, query: list[str] | None = None
) -> tuple[int, Any]:
    """Ask for the companies with keys in headers and query; return status and body."""
    sent = MultiDict([("x-api-key", key) for key in headers or []])
    response = await api.get("/v1/companies", headers=sent, params=[("api-key", key) for key in query or []])
    if response.status == 401:
        assert response.headers["WWW-Authenticate"] == 'ApiKey realm="brokerage"'
    return response.status, await response.json()


# The keys in headers and in the query: `a` and `b` are good ones, all others are sent as they are; and the refusal.
SENT: list[tuple[list[str], list[str], str]] = [
    (["a"], [], ""),
    ([], ["a"], ""),
    (["a"], ["a"], ""),
    # Different ones are refused even when both are good, and a repeated one even when it is the same.
    (["a", "b"], [], SEVERAL),
    ([], ["a", "b"], SEVERAL),
    (["a"], ["b"], SEVERAL),
    (["a", "a"], [], SEVERAL),
    ([], ["a", "a"], SEVERAL),
    (["a", "a"], ["a"], SEVERAL),
    (["a"], ["a", "a"], SEVERAL),
    ([], [], MISSING),
    *(([], [malformed], NOT_VALID) for malformed in ("", "x", "bk_0123456789_", "ü", "Bearer x", "null")),
]


@pytest.mark.parametrize(("headers", "query", "refusal"), SENT)
async def test_one_key_is_accepted_in_either_place_or_in_both(
    api: TestClient[Any, Any], stand_in: StandIn, headers: list[str], query: list[str], refusal: str
) -> None:
    keys = {"a": stand_in.grant(), "b": stand_in.grant()}
    sent = [[keys.get(key, key) for key in place] for place in (headers, query)]
    status, body = await ask(api, *sent)
    assert (status, body) == (200, []) if not refusal else (status, body["detail"]) == (401, refusal)
    assert status == 200 or body["code"] == "unauthorized"
    # Malformed keys are refused without a look-up.
    assert [path for path, _ in stand_in.asked if path.startswith("/api_keys")] == []


async def test_the_name_of_the_header_has_no_case(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    response = await api.get("/v1/companies", headers={"X-API-Key": stand_in.grant()})
    assert response.status == 200


async def test_every_other_reason_has_the_same_answer(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    unknown = stand_in.grant()
    stand_in.documents.clear()
    other = stand_in.grant()
    (document,) = stand_in.documents.values()
    document["digest"] = "0" * 64
    keys = [unknown, other, stand_in.grant(revoked=PAST), stand_in.grant(expires=PAST), "malformed"]
    answers = [await ask(api, headers=[key]) for key in keys]
    assert [status for status, _ in answers] == [401] * 5
    for _, problem in answers:
        del problem["request_id"]
    assert all(problem == answers[0][1] for _, problem in answers)
    assert answers[0][1]["detail"] == NOT_VALID


async def test_a_key_holds_until_it_expires(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    assert (await ask(api, headers=[stand_in.grant(expires=FUTURE)]))[0] == 200


async def test_the_key_counts_before_the_parameters(api: TestClient[Any, Any]) -> None:
    response = await api.get("/v1/listings?nonsense=1&page_size=x")
    assert response.status == 401


async def test_a_revocation_holds_once_the_kept_key_is_stale(open_api: Open, stand_in: StandIn) -> None:
    api = await open_api(fresh_seconds=0.0, stale_seconds=0.0)
    key = stand_in.grant()
    assert (await ask(api, headers=[key]))[0] == 200
    (document,) = stand_in.documents.values()
    document["revoked"] = PAST.isoformat()
    assert (await ask(api, headers=[key]))[0] == 401


async def test_a_key_in_memory_needs_no_search(open_api: Open, stand_in: StandIn) -> None:
    key = stand_in.grant()
    api = await open_api(fresh_seconds=3600.0, stale_seconds=3600.0)
    stand_in.keys_read.clear()
    for _ in range(3):
        assert (await ask(api, headers=[key]))[0] == 200
    assert stand_in.keys_read == []


async def test_an_unknown_id_and_a_wrong_secret_cost_the_same_search(open_api: Open, stand_in: StandIn) -> None:
    known, unknown = stand_in.grant(), generate_key().reveal()
    wrong = KeyText(known[3:13], generate_key().secret).reveal()
    api = await open_api(fresh_seconds=3600.0, stale_seconds=3600.0, failures_per_minute=0)
    for key in (unknown, wrong, unknown, wrong):
        stand_in.keys_read.clear()
        status, problem = await ask(api, headers=[key])
        assert (status, problem["detail"]) == (401, NOT_VALID)
        assert stand_in.keys_read == [1]
    assert [path for path, _ in stand_in.asked if path.startswith("/api_keys")] == []
    assert (await ask(api, headers=[known]))[0] == 200


async def test_in_an_outage_a_wrong_secret_is_answered_like_an_unknown_id(open_api: Open, stand_in: StandIn) -> None:
    known, unknown = stand_in.grant(), generate_key().reveal()
    wrong = KeyText(known[3:13], generate_key().secret).reveal()
    api = await open_api(fresh_seconds=3600.0, stale_seconds=3600.0)
    stand_in.out(refusal(503, "no_shard_available_action_exception"), "api_keys")
    assert [(await ask(api, headers=[key]))[0] for key in (known, wrong, unknown)] == [200, 503, 503]


async def test_the_last_good_key_survives_an_outage_of_the_keys(open_api: Open, stand_in: StandIn) -> None:
    api = await open_api(fresh_seconds=0.0, stale_seconds=0.0)
    key = stand_in.grant()
    assert (await ask(api, headers=[key]))[0] == 200
    stand_in.out(refusal(503, "no_shard_available_action_exception"), "api_keys")
    assert (await ask(api, headers=[key]))[0] == 200


async def test_a_key_never_seen_before_an_outage_is_not_called_wrong(
    api: TestClient[Any, Any], stand_in: StandIn
) -> None:
    stand_in.out(refusal(503, "no_shard_available_action_exception"), "api_keys")
    status, problem = await ask(api, headers=[stand_in.grant()])
    assert (status, problem["code"]) == (503, "temporarily-unavailable")


async def test_without_an_index_of_keys_the_service_is_away_rather_than_the_key_wrong(
    api: TestClient[Any, Any], stand_in: StandIn
) -> None:
    stand_in.out(refusal(404, "index_not_found_exception"), "api_keys")
    assert (await ask(api, headers=[stand_in.grant()]))[0] == 503


@pytest.mark.parametrize(
    ("changes", "is_accepted"),
    [
        ({}, True),
        ({"note": "changed"}, True),
        ({"digest": "b" * 64}, False),
        ({"revoked": PAST}, False),
        ({"expires": PAST}, False),
        ({"expires": FUTURE}, True),
    ],
)
async def test_a_key_counts_as_it_is_after_the_wait_for_a_slot(changes: dict[str, Any], *, is_accepted: bool) -> None:
    """Another secret under the same id is another key."""
    sent = ApiKey(key_id="k", name="n", digest="a" * 64, created=PAST)
    latest = msgspec.structs.replace(sent, **changes)
    used: list[str] = []
    usage = SimpleNamespace(record_use=lambda key_id, _: used.append(key_id))
    ring = cast("Any", SimpleNamespace(find=AsyncMock(return_value=latest), usage=usage))
    if is_accepted:
        assert await confirm(sent, ring) is latest
    else:
        with pytest.raises(Unauthorized):
            await confirm(sent, ring)
    assert used == (["k"] if is_accepted else [])
