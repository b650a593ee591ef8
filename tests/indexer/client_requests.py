"""What happens at chosen requests of a client: before one is sent, or to its response."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, NoReturn

from elasticsearch import (
    AsyncElasticsearch,
    ConnectionError,  # noqa: A004 - the client's name for it
)

Act = Callable[..., Awaitable[object] | object]


@dataclass
class SeenRequests:
    """How many of the requests there were; those that an act sends do not count."""

    count: int = 0
    is_acting: bool = False


@contextmanager
def before(client: AsyncElasticsearch, request: str, *acts: Act, having: str = "") -> Iterator[SeenRequests]:
    """Call each act before one of the requests, such as `PUT /_doc/lock-`, whose body has a text; it may raise."""
    with _interposed(client, request, having, acts, is_behind=False) as seen:
        yield seen


@contextmanager
def behind(client: AsyncElasticsearch, request: str, *acts: Act, having: str = "") -> Iterator[SeenRequests]:
    """Call each act with the body of one of the responses, which it may change, or replace by bytes; it may raise."""
    with _interposed(client, request, having, acts, is_behind=True) as seen:
        yield seen


@contextmanager
def _interposed(
    client: AsyncElasticsearch, request: str, having: str, acts: tuple[Act, ...], *, is_behind: bool
) -> Iterator[SeenRequests]:
    transport, seen, left = client.transport, SeenRequests(), list(acts)
    send = transport.perform_request
    method, part = request.split(" ")

    async def act(*given: object) -> object:
        seen.is_acting = True
        try:
            done = left.pop(0)(*given)
            return await done if isawaitable(done) else done
        finally:
            seen.is_acting = False

    async def perform_request(called: str, target: str, **given: Any) -> Any:
        is_one = called == method and part in target and having in str(given.get("body", "")) and not seen.is_acting
        seen.count += is_one
        if is_one and left and not is_behind:
            await act()
        response = await send(called, target, **given)
        if is_one and left and is_behind:
            answer = await act(response.body)
            response = response._replace(body=answer) if isinstance(answer, bytes) else response
        return response

    transport.perform_request = perform_request  # type: ignore[method-assign, assignment]
    try:
        yield seen
    finally:
        transport.perform_request = send  # type: ignore[method-assign]


def lose(*_: object) -> NoReturn:
    """Break the connection, before a request or behind it."""
    raise ConnectionError("lost")


class Killed(Exception):
    """Ends a run in the midst of its work."""


def kill(*_: object) -> NoReturn:
    raise Killed


def nothing(*_: object) -> None:
    """Let one of the requests pass."""
