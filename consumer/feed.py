"""The client: snapshots, changes and digests, with the retries and checks that they need."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Self, TypeVar, cast

import msgspec

from consumer.answers import Digest, Header, Last, Page, Record
from consumer.asking import PASSING, Asking, Cut, Patience, lines
from consumer.proof import Sum

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from consumer.asking import OnWait

    Records = AsyncGenerator[Record, None]

Answer = TypeVar("Answer")


class _Unproven(Exception):
    """The last line of an answer does not fit to what came before it."""


class Feed:
    """What one key may read, narrowed by a scope: `{"platform_company_id": "acme", "market_status": "on-market"}`.

    `on_wait` is called with seconds and reason before each wait for another attempt.
    """

    def __init__(self, url: str, key: str, scope: Mapping[str, str] | None = None, *, attempts: int = 8) -> None:
        """Ask under `url`; so many attempts in a row without progress are enough."""
        self._asking, self._scope, self._attempts = Asking(url, key), dict(scope or {}), attempts
        self.on_wait: OnWait = lambda seconds, reason: None  # noqa: ARG005 - nobody listens

    async def __aenter__(self) -> Self:
        """Open connections."""
        await self._asking.open()
        return self

    async def __aexit__(self, *_details: object) -> None:
        """Close them."""
        await self._asking.close()

    async def snapshot(self, resource: str, after: str | None = None) -> tuple[Header, Records]:
        """Return the header of a snapshot, and its records; `after` is the place of the last one that is kept.

        The records go on by themselves where a connection breaks, and end only behind a last line that proves them.
        The token is that of the first answer: keep it also where another run goes on with `after`.
        """
        told = self._snapshot(resource, after)
        return cast("Header", await anext(told)), cast("Records", told)

    async def _snapshot(self, resource: str, after: str | None) -> AsyncGenerator[Header | Record, None]:
        patience, begin, is_begun = Patience(self._attempts, self.on_wait), after, False
        while True:
            try:
                async with aclosing(self._answer(resource, begin)) as answer:
                    async for told in answer:
                        if isinstance(told, Record):
                            after = told.place
                        elif is_begun:
                            continue
                        is_begun = True
                        yield told
            except _Unproven as error:
                await patience.wait(error)
            except PASSING as error:
                if after != begin:
                    patience.renew()
                await patience.wait(error)
                begin = after
            else:
                return

    async def _answer(self, resource: str, after: str | None) -> AsyncGenerator[Header | Record, None]:
        """Yield the header and the records of one answer; raise _Unproven or one of PASSING where it is not whole."""
        proof = Sum()
        async with self._asking.get(f"snapshot/{resource}", self._scope | {"after": after or ""}) as answer:
            read = lines(answer)
            yield msgspec.json.decode(await anext(read, b""), type=Header)
            async for line in read:
                if (record := _record(line)) is None:
                    last = msgspec.json.decode(line, type=Last)
                    if (last.count, last.digest) != (proof.count, proof.digest):
                        raise _Unproven(f"snapshot/{resource} is not what its last line says")
                    return
                proof.add(record.id, record.content)
                yield record
        raise Cut(f"snapshot/{resource} ended without its last line")

    async def changes(
        self, since: Sequence[str] = (), *, resources: Sequence[str] = (), wait: int = 0, page_size: int = 1000
    ) -> AsyncGenerator[Page, None]:
        """Yield pages up to the end of what is published; the first is held back `wait` seconds while there is nothing.

        `since` are tokens that cover different resources; `next` of each page covers all of them. Raises TokenExpired.
        """
        size = self._scope | {"page_size": str(page_size)}
        asked = size | {"since": ",".join(since), "resources": ",".join(resources), "wait": str(wait or "")}
        while True:
            page = await self._ask("changes", asked, Page)
            yield page
            if page.at_end:
                return
            asked = size | {"since": page.next}

    async def digest(self, resource: str, prefixes: Sequence[str] = ()) -> Digest:
        """Return the digest of everything and of its 256 buckets, or of the buckets below at most 64 prefixes."""
        return await self._ask(f"digest/{resource}", self._scope | {"prefixes": ",".join(prefixes)}, Digest)

    async def _ask(self, path: str, parameters: Mapping[str, str], kind: type[Answer]) -> Answer:
        patience = Patience(self._attempts, self.on_wait)
        while True:
            try:
                async with self._asking.get(path, parameters) as answer:
                    return msgspec.json.decode(await answer.read(), type=kind)
            except PASSING as error:
                await patience.wait(error)


_RECORD = msgspec.json.Decoder(Record)


def _record(line: bytes) -> Record | None:
    """Return the record of a line, or None of a last one, which has no id."""
    try:
        return _RECORD.decode(line)
    except msgspec.ValidationError:
        return None
