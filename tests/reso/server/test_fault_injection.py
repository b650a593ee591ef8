"""Faults: each kind as a reader sees it, by order and by chance, and the rate limit."""

from __future__ import annotations

import json
from email.utils import parsedate_to_datetime

import aiohttp
import pytest

from tests.reso.api_reader import ApiReader, open_reader
from tests.reso.server.server_settings import ServerFault, ServerSettings


def fill(reading: ApiReader, count: int = 10) -> None:
    """Put so many offices."""
    for number in range(count):
        reading.server.put("Office", {"OfficeKey": f"o{number}"})


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (ServerFault.TOO_MANY, 429),
        (ServerFault.TOO_MANY_DATE, 429),
        (ServerFault.UNAVAILABLE, 503),
        (ServerFault.BROKEN, 500),
    ],
)
async def test_a_fault_that_is_ordered_happens_so_often(fault: ServerFault, status: int) -> None:
    async with open_reader(ServerSettings(retry_after_seconds=7)) as reading:
        fill(reading)
        reading.server.faults.plan(fault, times=2)
        answers = [await reading.ask("Office") for _ in range(3)]
    assert [found for found, _, _ in answers] == [status, status, 200]
    waits = answers[0][2].get("Retry-After", "none")
    assert {ServerFault.TOO_MANY_DATE: lambda: parsedate_to_datetime(waits)}.get(
        fault, lambda: waits in {"7", "none"}
    )()


async def test_a_fault_meets_the_resource_that_it_is_ordered_for() -> None:
    async with open_reader() as reading:
        reading.server.faults.plan(ServerFault.BROKEN, resource="$metadata")
        assert [(await reading.ask(name))[0] for name in ("Office", "$metadata", "$metadata")] == [200, 500, 200]
        assert reading.server.faults.pending == 0


async def test_a_cut_answer_ends_in_the_middle_of_its_body() -> None:
    async with open_reader() as reading:
        fill(reading)
        reading.server.faults.plan(ServerFault.CUT)
        with pytest.raises(aiohttp.ClientPayloadError):
            await reading.ask("Office")
        assert len(await reading.rows("Office")) == 10


async def test_a_truncated_answer_is_complete_by_its_length_and_no_json() -> None:
    async with open_reader() as reading:
        fill(reading)
        reading.server.faults.plan(ServerFault.TRUNCATED)
        with pytest.raises(json.JSONDecodeError):
            await reading.ask("Office")


async def test_html_comes_with_status_200() -> None:
    async with open_reader() as reading:
        reading.server.faults.plan(ServerFault.HTML)
        status, body, headers = await reading.ask("Office")
    assert (status, "<html>" in body, headers["Content-Type"]) == (200, True, "text/html; charset=utf-8")


async def test_a_slow_answer_is_the_right_one() -> None:
    async with open_reader(ServerSettings(slow_seconds=0.01)) as reading:
        fill(reading)
        reading.server.faults.plan(ServerFault.SLOW)
        assert len(await reading.rows("Office")) == 10
        assert reading.server.ledger.visits[0].fault is ServerFault.SLOW


@pytest.mark.parametrize("paging", ["skip", "token"])
@pytest.mark.parametrize(
    ("fault", "sizes", "count"),
    [(ServerFault.EMPTY, [0], 0), (ServerFault.STOPS_SHORT, [2], 10), (ServerFault.SHORT_PAGE, [2, 4, 4, 0], 10)],
)
async def test_a_page_that_lacks_rows(paging: str, fault: ServerFault, sizes: list[int], count: int) -> None:
    async with open_reader(ServerSettings(default_page=4, paging=paging)) as reading:  # type: ignore[arg-type]
        fill(reading)
        reading.server.faults.plan(fault)
        pages = await reading.walk("Office", orderby="OfficeKey")
        reading.server.faults.plan(fault)
        _, body, _ = await reading.ask("Office", count="true")
    assert ([len(page) for page in pages], body["@odata.count"]) == (sizes, count)


async def test_missing_rows_are_not_a_fault_if_there_are_none() -> None:
    async with open_reader() as reading:
        reading.server.faults.plan(ServerFault.EMPTY)
        await reading.rows("Office")
        assert reading.server.ledger.visits[0].fault is None


async def test_faults_by_chance_are_those_of_the_seed_and_never_too_many_in_a_row() -> None:
    rates = {ServerFault.BROKEN: 0.3, ServerFault.UNAVAILABLE: 0.3}
    runs = []
    for seed in (1, 1, 2):
        async with open_reader(ServerSettings(faults=rates, seed=seed, most_faults_in_a_row=2)) as reading:
            answers = [await reading.ask("Office") for _ in range(60)]
            runs.append("".join(str(status)[0] for status, _, _ in answers))
    assert runs[0] == runs[1] != runs[2]
    assert "2" in runs[0]
    assert "55" in runs[0]
    assert "555" not in runs[0]


async def test_requests_above_the_limit_are_violations_and_refused() -> None:
    async with open_reader(ServerSettings(rate_limit=3, rate_window_seconds=600)) as reading:
        answers = [await reading.ask("Office") for _ in range(5)]
        assert reading.server.violations == 2
    assert [status for status, _, _ in answers] == [200, 200, 200, 429, 429]
    assert answers[3][2]["Retry-After"] == "600"


async def test_the_limit_forgets_requests_behind_its_window() -> None:
    async with open_reader(ServerSettings(rate_limit=1, rate_window_seconds=0)) as reading:
        assert [(await reading.ask("Office"))[0] for _ in range(5)] == [200] * 5
