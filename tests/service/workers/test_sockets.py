"""The sockets of the workers: one port for all, which no other process has."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from service.settings import ListenError, ServiceSettings
from service.workers.worker import ListenSockets, bind_sockets, bind_worker_sockets
from tests.neighbours import neighbours, steady_port

Bind = Callable[..., list[ListenSockets]]


@pytest.fixture
def bind() -> Iterator[Bind]:
    """Bind sockets by settings; they are closed afterwards."""
    bound: list[ListenSockets] = []

    def by(**settings: Any) -> list[ListenSockets]:
        found = bind_sockets(ServiceSettings(**settings))
        bound.extend(found)
        return found

    yield by
    for listeners in bound:
        listeners.close()


def _accepts(listeners: ListenSockets) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", listeners.port)) == 0


def test_all_workers_get_sockets_of_their_own_on_one_chosen_port(bind: Bind) -> None:
    found = bind(port=0, workers=3)
    assert len({listeners.port for listeners in found}) == 1
    assert len({listeners.api[0].fileno() for listeners in found}) == 3


def test_nothing_waits_before_a_worker_listens(bind: Bind) -> None:
    first, second = bind(port=0, workers=2)
    assert not _accepts(first)
    second.api[0].listen()
    assert _accepts(first)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_service_does_not_join_the_first(bind: Bind, workers: int) -> None:
    (first, *_) = bind(port=0, workers=2)
    first.api[0].listen()
    with pytest.raises(ListenError, match=rf"^Cannot listen on 127.0.0.1:{first.port}: Address already in use"):
        bind(port=first.port, workers=workers)


def test_with_share_port_it_does(bind: Bind) -> None:
    (first,) = bind(port=0, share_port=True)
    first.api[0].listen()
    (second,) = bind(port=first.port, share_port=True)
    second.api[0].listen()


def test_sockets_of_one_worker_can_be_closed_and_opened_again(bind: Bind) -> None:
    first, second = bind(port=0, workers=2)
    second.api[0].listen()
    first.close()
    with closing(bind_worker_sockets(0, ServiceSettings(port=second.port, workers=2))) as again:
        assert again.port == second.port


def test_each_worker_serves_its_metrics_on_the_next_port(bind: Bind) -> None:
    first, second = neighbours()
    ports = [listeners.metrics[0].getsockname()[1] for listeners in bind(port=0, workers=2, metrics_port=first)]
    assert ports == [first, second]


def test_metrics_have_a_host_of_their_own(bind: Bind) -> None:
    port = steady_port()
    (default,) = bind(host="127.0.0.2", port=0, metrics_port=port)
    assert default.metrics[0].getsockname() == ("127.0.0.1", port)
    default.close()
    (chosen,) = bind(host="127.0.0.2", port=0, metrics_port=port, metrics_host="127.0.0.3")
    assert chosen.metrics[0].getsockname() == ("127.0.0.3", port)


def test_a_host_may_have_several_addresses(bind: Bind, monkeypatch: pytest.MonkeyPatch) -> None:
    def addresses(*_: object, **__: object) -> list[tuple[object, ...]]:
        none_of_ours = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("203.0.113.1", 0))
        return [none_of_ours, *((socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{n}", 0)) for n in (1, 2))]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    (listeners,) = bind(host="several", port=0)
    names = [opened.getsockname() for opened in listeners.api]
    assert names == [("127.0.0.1", listeners.port), ("127.0.0.2", listeners.port)]


def test_ipv6_is_listened_on_and_shown_in_brackets(bind: Bind) -> None:
    port = steady_port()

    def twice() -> None:
        for _ in range(2):
            (listeners,) = bind(host="::1", port=port)
            listeners.api[0].listen()

    # A machine without IPv6 refuses the first already, in the same words.
    with pytest.raises(ListenError, match=rf"^Cannot listen on \[::1\]:{port}: "):
        twice()


def test_a_foreign_host_is_reported(bind: Bind) -> None:
    with pytest.raises(ListenError, match=r"^Cannot listen on 203\.0\.113\.9:0: Cannot assign requested address\."):
        bind(host="203.0.113.9", port=0)
    with pytest.raises(ListenError, match=r"^Cannot listen on no\.such\.name\.invalid:0: "):
        bind(host="no.such.name.invalid", port=0)
