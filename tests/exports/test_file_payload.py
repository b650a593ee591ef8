"""The threads that send files: their descriptors stay open until they have ended."""

import asyncio
import threading

import pytest

from service.exports.files import _in_thread
from tests.waiting import until


async def test_a_thread_is_waited_for_however_often_its_request_is_cancelled() -> None:
    began, may_end = threading.Event(), threading.Event()

    def send() -> int:
        began.set()
        may_end.wait()
        return 1

    sending = asyncio.create_task(_in_thread(send))
    await until(began.is_set)
    try:
        for _ in range(3):
            sending.cancel()
            await asyncio.wait([sending], timeout=0.01)
            assert not sending.done()
    finally:
        may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await sending
