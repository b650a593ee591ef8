"""Keys that ask for the same at the same time share work, and nothing that only one of them may read."""

import asyncio
from collections.abc import Callable

import pytest

from tests.contract.world import World, response_identifiers
from tests.security.expected_access import IDENTIFIERS, AccessModel, MatrixRequest
from tests.security.matrix_http import send_request
from tests.security.scope_matrix import scrambled

_SINCE = {"updated_since": "1"}
_ANY = {**_SINCE, "platform_company_id": "4101", "market_status": "all"}
_INDEXES: dict[str, dict[str, str]] = {
    "/listings": _ANY,
    "/sold_listings": _SINCE,
    "/agents": _SINCE,
    "/offices": {},
    "/teams": {},
    "/companies": {},
}
_SHOWS = {
    "/listings": "{platform_listing_id}",
    "/sold_listings": "{platform_listing_id}",
    "/agents": "{guid}",
    "/offices": "{platform_office_id}",
    "/teams": "{platform_team_id}",
    "/companies": "{platform_company_id}",
}


def _together(estate: AccessModel) -> list[list[MatrixRequest]]:
    """Return groups of requests for the same by every key: an index each, or the records of every company."""
    groups = [[MatrixRequest(key, path, None, query) for key in estate.grants] for path, query in _INDEXES.items()]
    for path, placeholder in _SHOWS.items():
        resource = path.removeprefix("/")
        records = [estate.of(resource, [company])[0]["record"] for company in estate.numbers]
        named = [str(record[IDENTIFIERS[resource]]) for record in records]
        groups.append([MatrixRequest(key, f"{path}/{placeholder}", name) for name in named for key in estate.grants])
    return groups


async def test_what_others_ask_at_the_same_time_changes_no_answer(
    walled: World, estate: AccessModel, amount: Callable[[int, int], int]
) -> None:
    for group in _together(estate):
        alone = [(await send_request(walled, asked)).comparable() for asked in group]
        for _ in range(amount(1, 50)):
            answers = await asyncio.gather(*(send_request(walled, asked) for asked in group))
            assert [answer.comparable() for answer in answers] == alone
        assert len({status for status, _, _ in alone}) > 1 or len({body for _, _, body in alone}) > 1


async def test_walks_of_different_keys_side_by_side_hold_what_each_may_read(
    walled: World, estate: AccessModel, amount: Callable[[int, int], int]
) -> None:
    query = {"updated_since": "1", "page_size": 5}

    async def walk(key: str) -> tuple[str, ...]:
        return tuple(response_identifiers(await walled.walk("/sold_listings", key, **query)))

    keys = [key for key in estate.grants if key != "all"] * amount(2, 3)
    for _ in range(amount(1, 20)):
        walked = await asyncio.gather(*map(walk, keys))
        expected = [estate.verdict(MatrixRequest(key, "/sold_listings", None)).identifiers for key in keys]
        assert walked == expected


@pytest.mark.parametrize("path", _INDEXES)
async def test_a_tag_of_another_key_saves_an_answer_only_where_the_bytes_are_the_same(
    walled: World, estate: AccessModel, path: str
) -> None:
    requests = [MatrixRequest(key, path, None, _INDEXES[path]) for key in estate.grants]
    answers = [await send_request(walled, asked) for asked in requests]
    for theirs in answers:
        tag = theirs.headers.get("ETag", '"none"')
        for asked, own in zip(requests, answers, strict=True):
            again = await send_request(walled, asked, **{"If-None-Match": tag})
            is_same = "ETag" in theirs.headers and own.status == 200 and own.text == theirs.text
            assert again.status == (304 if is_same else own.status)
            assert again.text == ("" if is_same else own.text) or again.status != 200


@pytest.mark.parametrize("path", _SHOWS)
@pytest.mark.parametrize("tag", ["*", '"any"', 'W/"any", *'])
async def test_no_tag_makes_a_foreign_record_look_as_if_it_were_there(
    walled: World, estate: AccessModel, path: str, tag: str
) -> None:
    resource = path.removeprefix("/")
    foreign = str(estate.of(resource, ["rainier-gate"])[0]["record"][IDENTIFIERS[resource]])
    for header in ("If-None-Match", "If-Match", "If-Range"):
        asked, nothing = (
            MatrixRequest("one", f"{path}/{_SHOWS[path]}", named) for named in (foreign, scrambled(foreign))
        )
        answer, unknown = (
            await send_request(walled, asked, **{header: tag}),
            await send_request(walled, nothing, **{header: tag}),
        )
        assert answer.comparable() == unknown.comparable(scrambled(foreign), instead=foreign)
        assert answer.status == 404
