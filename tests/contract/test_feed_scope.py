"""The feed reads what the indexes read: the same scopes, the same refusals, for every kind of key."""

from itertools import product

import orjson
import pytest

from tests.contract.world import PARENT, World

_KEYS = ("all", "large", "child", "parent", "two")
_SCOPES: tuple[dict[str, str], ...] = (
    {},
    {"platform_company_id": "summit-crest"},
    {"platform_company_id": "4101"},
    {"platform_company_id": "tidewater-brokers"},
    {"platform_company_id": "nowhere"},
    {"parent_company_id": PARENT},
    {"parent_company_id": "summit-crest"},
    {"parent_company_id": PARENT, "platform_company_id": "4101"},
    {"parent_company_id": PARENT, "platform_company_id": "4200"},
)


@pytest.mark.parametrize(("key", "scope"), list(product(_KEYS, _SCOPES)), ids=str)
async def test_scopes_and_refusals_are_those_of_the_index(world: World, key: str, scope: dict[str, str]) -> None:
    index = await world.get("/offices", key, **scope)
    for path in ("/changes", "/snapshot/offices", "/digest/offices"):
        more = {"resources": "offices", "page_size": "1000"} if path == "/changes" else {}
        headers = {"x-api-key": world.keys[key]}
        async with world.http.get(f"/v1{path}", params={**scope, **more}, headers=headers) as answer:
            assert answer.status == index.status
            body = await answer.read()
        if index.status == 200:
            expected = {office["platform_office_id"] for office in index.body["offices"]}
            assert _contents(path, body) == (len(expected) if path.startswith("/digest") else expected)
        else:
            assert {error["parameter"] for error in orjson.loads(body)["errors"]} == index.parameters


def _contents(path: str, body: bytes) -> set[str] | int:
    if path.startswith("/digest"):
        count: int = orjson.loads(body)["count"]
        return count
    lines = orjson.loads(body)["changes"] if path == "/changes" else map(orjson.loads, body.splitlines()[1:-1])
    return {line["id"] for line in lines if "record" in line}
