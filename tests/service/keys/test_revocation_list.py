"""The emergency list of revoked keys: a file that every worker reads, whatever Elasticsearch does."""

# ruff: noqa: ASYNC240 - the file is small and in memory

import asyncio
import logging
from pathlib import Path

import pytest

from cluster.settings import SettingError
from service.keys.api_key import KeyText
from service.keys.revocation_list import RevocationList, parse_revocation_list
from service.limits.admission import RequestKind
from service.settings import ServiceSettings
from tests.service.api_client import services_of, status
from tests.service.conftest import Open
from tests.service.stand_in import StandIn, refusal
from tests.waiting import until, until_true

AWAY = refusal(503, "no_shard_available_action_exception")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file, which does not exist yet."""
    return tmp_path / "revoked-keys"


async def test_a_listed_key_is_refused_while_elasticsearch_is_away_and_works_again_without_its_line(
    open_api: Open, stand_in: StandIn, file: Path
) -> None:
    kept, lost = stand_in.grant(), stand_in.grant()
    api = await open_api(fresh_seconds=0.25, stale_seconds=3600.0, revocation_list=str(file), failures_per_minute=0)
    assert [await status(api, key) for key in (kept, lost)] == [200, 200]
    stand_in.out(AWAY, "api_keys")

    async def is_refused() -> bool:
        return await status(api, lost) != 200

    file.write_text(f"{lost[3:13]}  # lost laptop\n")
    await until_true(is_refused)
    assert await status(api, kept) == 200
    stand_in.replies.clear()
    assert await status(api, lost) == 401
    file.unlink()

    async def is_accepted() -> bool:
        return await status(api, lost) == 200

    await until_true(is_accepted)


async def test_the_list_holds_from_the_first_request(open_api: Open, stand_in: StandIn, file: Path) -> None:
    key = stand_in.grant()
    file.write_text(key[3:13])
    api = await open_api(fresh_seconds=3600.0, stale_seconds=3600.0, revocation_list=str(file))
    assert await status(api, key) == 401


async def test_a_listed_key_that_waits_for_a_place_is_refused(open_api: Open, stand_in: StandIn, file: Path) -> None:
    key = stand_in.grant()
    api = await open_api(fresh_seconds=0.25, concurrency=1, queue_seconds=3600.0, revocation_list=str(file))
    services = services_of(api)
    pages = services.limits.admission.limits[RequestKind.PAGE]
    async with pages.slot("test"):
        waiting = asyncio.create_task(status(api, key))
        await until(lambda: pages.waiting)
        file.write_text(key[3:13])
        await until(lambda: services.keys.recall(key[3:13]) is None)
    assert await waiting == 401


@pytest.mark.parametrize(
    ("content", "key_ids", "bad_lines"),
    [
        (b"", set(), []),
        (b"abcdefghij\r\n\r\n# all of them\n  0123456789 # lost\n", {"abcdefghij", "0123456789"}, []),
        (b"\xef\xbb\xbfabcdefghij", {"abcdefghij"}, []),
        (b"nonsense\nabcdefghij\nABCDEFGHIJ\n\xff\n", {"abcdefghij"}, [1, 3, 4]),
        ("abcdefghij\n".encode("utf-16"), set(), [1, 2]),
    ],
)
def test_each_line_is_a_key_id(content: bytes, key_ids: set[str], bad_lines: list[int]) -> None:
    assert parse_revocation_list(content) == (key_ids, bad_lines)


def test_a_complete_key_counts_as_its_id() -> None:
    text = KeyText("abcdefghij", "x" * 30)
    assert parse_revocation_list(text.reveal().encode()) == ({"abcdefghij"}, [])


async def test_bad_lines_are_logged_by_number_only(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text("abcdefghij\nsecret words\n" + "x\n" * 20)
    listed = RevocationList(str(file), 1.0)
    for _ in range(2):
        await listed.read()
    assert "abcdefghij" in listed.key_ids
    (error,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "lines are not key ids: 2, 3, 4" in error
    assert "and 11 more" in error
    assert "secret" not in caplog.text


async def test_an_unreadable_list_keeps_its_last_content(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text("abcdefghij\n")
    listed = RevocationList(str(file), 1.0)
    await listed.read()
    file.unlink()
    file.mkdir()
    for _ in range(2):
        await listed.read()
    assert "abcdefghij" in listed.key_ids
    assert caplog.text.count("cannot be read, so its last content stays valid") == 1
    file.rmdir()
    await listed.read()
    assert "abcdefghij" not in listed.key_ids


@pytest.mark.parametrize("fault", ["folder", "missing folder", "too large"])
def test_a_list_that_cannot_be_read_prevents_the_start(file: Path, fault: str) -> None:
    if fault == "folder":
        file.mkdir()
    elif fault == "too large":
        file.write_bytes(b"abcdefghij\n" * 100_000)
    path = file / "x" if fault == "missing folder" else file
    with pytest.raises(SettingError, match="BROKERAGE_REVOCATION_LIST"):
        ServiceSettings(revocation_list=str(path))
