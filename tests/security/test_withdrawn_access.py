"""A key that is revoked, expires or may read less while a response is on its way: every kind of response, each change.

A request that waits is answered as if it were made now; a body that is being sent ends early, and not like a whole one.
"""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import orjson
import pytest
from yarl import URL

from service.changes.sharing import ChangeNotifier
from tests.indexer.conftest import module_bench
from tests.security.withdrawals import BUFFER_BYTES, HARMLESS, WITHDRAWALS, Stage, stage
from tests.waiting import until

__all__ = ["module_bench", "stage"]

WAITING = {
    "page": "/v1/listings?platform_company_id=a&updated_since=1",
    "record": "/v1/listings/L00",
    "digest": "/v1/digest/listings",
    "odata": "/v1/reso/Property",
}
SENDING = {
    "page": "/v1/listings?platform_company_id=a&updated_since=1",
    "snapshot": "/v1/snapshot/listings",
    "odata": "/v1/reso/Property",
    "file": "/v1/exports/listings",
}


@pytest.mark.parametrize("withdrawal", WITHDRAWALS)
@pytest.mark.parametrize("kind", WAITING)
async def test_a_request_that_waits_for_elasticsearch_gets_what_a_new_one_gets(
    stage: Stage, kind: str, withdrawal: str
) -> None:
    key, path, (withdraw, is_known) = await stage.key(), WAITING[kind], WITHDRAWALS[withdrawal]
    before = await stage.answer(key, path)
    assert before[0] == 200
    stage.held.until.clear()
    waiting = stage.held.waiting
    try:
        answer = asyncio.create_task(stage.answer(key, path))
        await until(lambda: stage.held.waiting > waiting)
        await withdraw(stage, key[3:13])
        await stage.knows(key, is_known)
    finally:
        stage.held.until.set()
    now = await stage.answer(key, path)
    assert await answer == now
    assert now != before or (kind, withdrawal) == ("odata", "fields")  # which has no guarded field


@pytest.mark.parametrize("withdrawal", [*WITHDRAWALS, *HARMLESS])
async def test_a_link_without_a_key_opens_no_more_than_the_key_itself(stage: Stage, withdrawal: str) -> None:
    key, (change, is_known) = await stage.key(), (WITHDRAWALS | HARMLESS)[withdrawal]
    first = f"http://127.0.0.1:{stage.port}/v1/reso/Property?$select=ListPrice&$top=2&api-key={key}"
    async with stage.http.get(first, headers={"Prefer": "maxpagesize=1"}) as answer:
        link = URL((await answer.json())["@odata.nextLink"], encoded=True)
    await change(stage, key[3:13])
    await stage.knows(key, is_known)
    async with stage.http.get(link) as followed, stage.http.get(link, headers={"x-api-key": key}) as asked:
        assert followed.status == asked.status == (200 if (await asked.json()).get("value") is not None else 401)
        assert (await followed.json()).get("value") == (await asked.json()).get("value")


@pytest.mark.parametrize("withdrawal", WITHDRAWALS)
async def test_a_long_poll_gets_what_a_new_request_gets_and_no_change(stage: Stage, withdrawal: str) -> None:
    key, (withdraw, is_known) = await stage.key(), WITHDRAWALS[withdrawal]
    _, page = await stage.answer(key, "/v1/changes?page_size=1000")
    path = f"/v1/changes?wait=30&since={orjson.loads(page)['next']}"
    notifier = stage.services.of(ChangeNotifier)
    answer = asyncio.create_task(stage.answer(key, path))
    await until(lambda: notifier.waiting)
    await withdraw(stage, key[3:13])
    await stage.knows(key, is_known)
    await stage.publish_change()
    status, body = await answer
    assert (status, body) == await stage.answer(key, path)
    assert status == (410 if withdrawal in {"scope", "fields", "licence"} else 401)


@dataclass
class Reader:
    """A client that reads the body of a response when it is told to."""

    socket: socket.socket
    body: bytes
    length: int | None  # None in chunks

    async def read_on(self) -> bool:
        """Read until the service ends the body; return whether that was the end of a whole one."""
        loop = asyncio.get_running_loop()
        try:
            while not self.is_whole:
                if not (piece := await loop.sock_recv(self.socket, BUFFER_BYTES)):
                    return False
                self.body += piece
        except ConnectionError:
            return False
        return True

    @property
    def is_whole(self) -> bool:
        return self.body.endswith(b"\r\n0\r\n\r\n") if self.length is None else len(self.body) == self.length


@asynccontextmanager
async def begun(stage: Stage, key: str, path: str) -> AsyncIterator[Reader]:
    """Send a request, read the beginning of the response, and no more."""
    loop = asyncio.get_running_loop()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        connection.setblocking(False)
        await loop.sock_connect(connection, ("127.0.0.1", stage.port))
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nx-api-key: {key}\r\n\r\n"
        await loop.sock_sendall(connection, head.encode())
        received = b""
        while b"\r\n\r\n" not in received:
            received += await loop.sock_recv(connection, BUFFER_BYTES)
        answer, _, body = received.partition(b"\r\n\r\n")
        assert b" 200 " in answer.partition(b"\r\n")[0]
        length = re.search(rb"Content-Length: (\d+)", answer)
        yield Reader(connection, body, None if length is None else int(length[1]))


async def path_of(stage: Stage, kind: str, key: str) -> str:
    """Return what to request; of files, the first one."""
    if kind != "file":
        return SENDING[kind]
    _, manifest = await stage.answer(key, SENDING[kind])
    path: str = orjson.loads(manifest)["files"][0]["href"]
    return path


@pytest.mark.parametrize("withdrawal", WITHDRAWALS)
@pytest.mark.parametrize("kind", SENDING)
async def test_a_body_that_is_being_sent_ends_early_and_as_an_error(stage: Stage, kind: str, withdrawal: str) -> None:
    key, (withdraw, _) = await stage.key(), WITHDRAWALS[withdrawal]
    async with begun(stage, key, await path_of(stage, kind, key)) as reader:
        await until(lambda: stage.is_sending(key))
        await withdraw(stage, key[3:13])
        await until(lambda: not stage.is_sending(key))
        assert not await reader.read_on()
    assert (await stage.answer(key, "/v1/companies"))[0] in {200, 401}  # the service goes on


@pytest.mark.parametrize("change", HARMLESS)
@pytest.mark.parametrize("kind", SENDING)
async def test_a_key_that_may_read_as_much_or_more_is_sent_everything(stage: Stage, kind: str, change: str) -> None:
    key, (make, is_known) = await stage.key(), HARMLESS[change]
    async with begun(stage, key, await path_of(stage, kind, key)) as reader:
        await make(stage, key[3:13])
        await stage.knows(key, is_known)
        stage.services.limits.unread.sweep()
        assert await reader.read_on()
