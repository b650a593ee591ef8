"""Delivers to one subscription: one page after the other, each until it was accepted.

The position is stored after each acceptance, so the next process repeats at most one delivery. Each attempt reads
again, and sends what the key may read at that moment.
"""

import asyncio
import datetime as dt
import hashlib
import logging
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import msgspec
import orjson

from service.deliver.reading import Page, PageReader, open_reader
from service.deliver.sender import Answer, Sender
from service.deliver.signatures import signature
from service.deliver.subscriptions import (
    OPEN_AFTER,
    Body,
    Progress,
    ProgressConflict,
    ProgressStore,
    Subscription,
    VersionedProgress,
    now_milliseconds,
)
from service.errors import ApiError, EngineUnavailable
from service.keys.api_key import ApiKey
from service.services import Services
from service.telemetry.observation import CURRENT_OBSERVATION, RequestObservation

_OPEN_SECONDS = 300.0
_LONGEST_PAUSE_SECONDS = 60.0
# How often a withdrawn key or a lost share stops a delivery that is being sent, and a key is looked for again.
_WATCH_SECONDS = 0.5
_KEY_SECONDS = 2.0
_STORE_RETRY_SECONDS = 1.0
# A position that moves without a delivery costs only a longer read when it is lost.
_PASSED_SECONDS = 30.0
_EXPIRED = 410

_log = logging.getLogger("service")
Result = TypeVar("Result")


class Superseded(Exception):
    """Another process delivers to the subscription, or it is gone."""


class Courier:
    """Delivers to one subscription as long as `holds` says that no other process may."""

    def __init__(
        self,
        services: Services,
        sender: Sender,
        store: ProgressStore,
        subscription: Subscription,
        holds: Callable[[], bool],
    ) -> None:
        self._services, self._sender, self._progress_store = services, sender, store
        self._subscription, self._holds = subscription, holds
        self._stored_at = 0.0
        self._sending = asyncio.Lock()
        self._is_ending = False

    async def settled(self) -> None:
        """Return once nothing is being sent, and what was accepted is stored; nothing more is sent then."""
        self._is_ending = True
        async with self._sending:
            return

    async def run(self) -> None:
        """Deliver until it is cancelled; raise Superseded."""
        CURRENT_OBSERVATION.set(RequestObservation())
        self._stored = await self._claim()
        reader: PageReader | None = None
        while True:
            key = await self._valid_key()
            try:
                reader = reader or open_reader(self._services, self._subscription.body)
                page = await self._read(reader, key)
            except ApiError as error:
                if error.status == _EXPIRED and self._progress.since:
                    _log.warning("%s: %s It begins again.", self._subscription.name, error.detail)
                    await self._store(since="", waiting=self._waiting)
                    continue
                reason = error.reason if isinstance(error, EngineUnavailable) else error.detail
                await self._fail(Answer(0, f"cannot be read: {reason}"))
                continue
            if page.count:
                await self._deliver(page)
            elif self._has_passed(page):
                await self._store(since=page.reached, failures=0, waiting=0)

    @property
    def _progress(self) -> Progress:
        return self._stored.progress

    @property
    def _waiting(self) -> int:
        """Since when changes wait, if they do now."""
        return self._progress.waiting or now_milliseconds()

    async def _claim(self) -> VersionedProgress:
        """Return the progress that was stored; it begins where the subscription says if it was told to begin again."""
        if (stored := await self._patiently(self._read_stored)) is None:
            raise Superseded
        self._stored = stored
        if stored.progress.starts != self._subscription.starts:
            subscription = self._subscription
            await self._store(since=subscription.start, starts=subscription.starts, failures=0, waiting=self._waiting)
        return self._stored

    async def _valid_key(self) -> ApiKey:
        """Return the key, or the one that replaced it when it expired, once it is valid."""
        while True:
            key_id, seen = self._subscription.key_id, set[str]()
            while (key := await self._services.keys.find(key_id)) is not None:
                if key.is_usable(dt.datetime.now(dt.UTC)):
                    self._services.keys.usage.record_use(key_id, dt.datetime.now(dt.UTC))
                    if self._progress.is_stopped:
                        await self._store(is_stopped=False)
                    return key
                seen.add(key_id)
                if key.revoked is not None or key.successor is None or key.successor in seen:
                    break
                key_id = key.successor
            if not self._progress.is_stopped:
                _log.warning("%s: the key %s is not valid.", self._subscription.name, key_id)
                await self._store(is_stopped=True, answer="the key is not valid", answered=now_milliseconds())
            await asyncio.sleep(_KEY_SECONDS)

    async def _read(self, reader: PageReader, key: ApiKey) -> Page:
        progress = self._progress
        return await reader.next_page(key, self._subscription, progress.since, waits=not progress.waiting)

    async def _deliver(self, page: Page) -> None:
        """Send a page once; store the position if it was accepted, else wait."""
        number = self._progress.number + 1
        message = _message(self._subscription, number, page)
        async with self._sending:
            if page.is_withdrawn():
                return
            if self._is_ending or not self._holds():
                raise Superseded
            page.note_sent()
            answer = await self._send(page, number, message)
            if answer is None:
                return
            if answer.is_accepted:
                now = now_milliseconds()
                waiting = 0 if page.at_end else self._waiting
                reached = {"since": page.reached, "number": number, "delivered": now}
                await self._store(**reached, failures=0, waiting=waiting, answer=str(answer), answered=now)
                return
        await self._fail(answer)

    async def _send(self, page: Page, number: int, message: bytes) -> Answer | None:
        """Return the answer, None if the key may no longer read the page; raise Superseded if the share is lost."""
        subscription = self._subscription
        headers = signed_headers(subscription, f"{subscription.id}-{number}-{_digest(message)}", message)
        sending = asyncio.create_task(self._sender.send(subscription.url, headers, message))
        try:
            while not (await asyncio.wait({sending}, timeout=_WATCH_SECONDS))[0]:
                if page.is_withdrawn():
                    return None
                if not self._holds():
                    raise Superseded
            return sending.result()
        finally:
            sending.cancel()

    async def _fail(self, answer: Answer) -> None:
        """Store that an attempt failed, and wait before the next."""
        failures = self._progress.failures + 1
        now = now_milliseconds()
        await self._store(failures=failures, waiting=self._waiting, answer=str(answer), answered=now)
        await asyncio.sleep(max(answer.retry_after, pause_seconds(failures)))

    def _has_passed(self, page: Page) -> bool:
        """Whether it is worth a write that nothing is left to be sent."""
        progress = self._progress
        if progress.waiting or progress.failures:
            return page.at_end
        return page.reached != progress.since and time.monotonic() - self._stored_at >= _PASSED_SECONDS

    async def _store(self, **changes: Any) -> None:
        """Store progress; raise Superseded if another process has moved the position."""
        wanted, base = msgspec.structs.replace(self._progress, **changes), self._progress
        while True:
            try:
                write = partial(self._progress_store.write, self._subscription.id, wanted, self._stored)
                self._stored = await self._patiently(write)
                break
            except ProgressConflict:
                present = await self._patiently(self._read_stored)
                if present is None:
                    raise Superseded from None
                self._stored = present
                if present.progress == wanted:  # the response to this write was lost
                    break
                found = present.progress
                if (found.since, found.number, found.starts) != (base.since, base.number, base.starts):
                    raise Superseded from None
                wanted = msgspec.structs.replace(found, **changes)
        self._stored_at = time.monotonic()

    async def _read_stored(self) -> VersionedProgress | None:
        return await self._progress_store.read(self._subscription.id)

    async def _patiently(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Repeat until Elasticsearch answers; raise Superseded if the share is lost meanwhile."""
        while True:
            try:
                return await attempt()
            except ApiError as error:
                if not self._holds():
                    raise Superseded from error
            await asyncio.sleep(_STORE_RETRY_SECONDS)


def pause_seconds(failures: int) -> float:
    """Return how long to wait after so many failures in a row, with jitter, so that subscriptions do not keep step."""
    longest = _OPEN_SECONDS if failures >= OPEN_AFTER else min(_LONGEST_PAUSE_SECONDS, 2.0 ** (failures - 1))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret


def signed_headers(subscription: Subscription, message_id: str, message: bytes) -> dict[str, str]:
    """Return the headers of a delivery that is sent now."""
    timestamp = int(time.time())
    bearer = {"Authorization": f"Bearer {subscription.bearer}"} if subscription.bearer else {}
    return {
        "Content-Type": "application/json",
        "User-Agent": "brokerage-deliver",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signature(each, message_id, timestamp, message) for each in subscription.secrets),
        **bearer,
    }


def _message(subscription: Subscription, number: int, page: Page) -> bytes:
    """Return the body of a delivery: of EntityEvents as they are, of changes with where they begin."""
    if subscription.body is Body.EVENTS:
        return page.content
    head = {"type": "changes", "subscription": subscription.name, "number": number, "since": page.since or None}
    return orjson.dumps(head)[:-1] + b',"data":' + page.content + b"}"


def _digest(message: bytes) -> str:
    """Return what tells apart two deliveries with one number, of which the second has what has changed since."""
    return hashlib.sha256(message).hexdigest()[:16]
