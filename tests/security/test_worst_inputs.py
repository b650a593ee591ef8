"""The most expensive inputs of each parser, over real HTTP: each is served or refused in few bytes, after little work.

`python -m tests.security.worst_inputs` measures the processor time of each.
"""

import asyncio
import difflib
from collections.abc import Iterable
from contextlib import suppress
from http import HTTPStatus

import pytest

from service.errors import MAX_FAULTS
from tests.security.worst_inputs import MAX_ANSWER_BYTES, serve_worst, worst_requests
from tests.service.raw_http import RawResponse, exchange_one, request
from tests.service.stand_in import StandIn


async def _answers(stand_in: StandIn) -> dict[tuple[str, str], RawResponse]:
    answers = {}
    async with serve_worst(stand_in) as (port, key):
        for name, family, sent in worst_requests(key):
            # A connection may be reset if bytes are left after a request that is not valid HTTP.
            with suppress(ConnectionError):
                answers[name, family] = await exchange_one(port, sent)
    return answers


async def test_no_answer_is_long(stand_in: StandIn) -> None:
    answers = await _answers(stand_in)
    assert len(answers) > 300
    refusals = {case: answer for case, answer in answers.items() if answer.status != HTTPStatus.OK}
    assert len(refusals) > 200
    assert not {case: len(answer.body) for case, answer in refusals.items() if len(answer.body) > MAX_ANSWER_BYTES}
    assert not [case for case, answer in answers.items() if answer.status == 500]


async def test_few_names_are_compared_with_the_known_ones(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    original = difflib.get_close_matches

    def count(word: str, known: Iterable[str], n: int) -> list[str]:
        compared.append(word)
        return original(word, [*known], n=n)

    monkeypatch.setattr(difflib, "get_close_matches", count)
    async with serve_worst(stand_in) as (port, key):
        query = "&".join(f"min_list_pric{number}=1" for number in range(99))
        path = f"/v1/listings?platform_company_id=acme&{query}"
        answer = await exchange_one(port, request(path, headers={"x-api-key": key}))
    assert answer.status == 400
    assert b"Not listed: 89 more faults." in answer.body
    assert len(compared) == MAX_FAULTS


async def test_a_query_of_many_parameters_is_refused_unparsed(stand_in: StandIn) -> None:
    async with serve_worst(stand_in) as (port, key):
        answers = await asyncio.gather(
            *(exchange_one(port, request(f"{path}?{'a&' * 100}", headers={"x-api-key": key})) for path in _PATHS)
        )
    assert [answer.status for answer in answers] == [400, 400]
    assert all(b"The query has 101 parameters; at most 100 are accepted." in answer.body for answer in answers)


async def test_header_fields_have_a_limit_in_all(stand_in: StandIn) -> None:
    async with serve_worst(stand_in) as (port, _):
        sent = request("/livez", headers={f"x{number}": "y" * 8_000 for number in range(2)})
        assert (await exchange_one(port, sent)).status == 200
        sent = request("/livez", headers={f"x{number}": "y" * 8_000 for number in range(3)})
        assert (await exchange_one(port, sent)).status == 431


_PATHS = ("/v1/listings", "/v1/reso/Property")
