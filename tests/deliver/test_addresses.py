"""Where deliveries may go: by the URL, and by the addresses that its host has when a connection is made."""

import asyncio
import ipaddress
import socket
from typing import Any

import pytest
from aiohttp import web

from service.deliver.sender import RefusedAddress, Sender, require_deliverable, require_public
from tests.deliver.receiver import receiving

_PRIVATE = [
    "127.0.0.1",
    "127.8.9.10",
    "0.0.0.0",  # noqa: S104 - not bound to
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd12:3456::1",
    "ff02::1",
    "fec0::1",
    "2001:db8::1",
    # Addresses of IPv4 in those of IPv6: mapped, compatible, translated, 6to4.
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "::10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2002:7f00:1::1",
    "2002:a00:1::1",
]
_PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::1"]


@pytest.mark.parametrize("text", _PRIVATE)
def test_an_address_of_a_private_network_is_refused(text: str) -> None:
    with pytest.raises(RefusedAddress, match="BROKERAGE_DELIVER_ALLOW_PRIVATE"):
        require_public(ipaddress.ip_address(text), allow_private=False)
    require_public(ipaddress.ip_address(text), allow_private=True)


@pytest.mark.parametrize("text", _PUBLIC)
def test_an_address_of_the_internet_is_not(text: str) -> None:
    require_public(ipaddress.ip_address(text), allow_private=False)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://crm.example/hook", "use https"),
        ("http://10.0.0.1/hook", "use https"),
        ("http://[fe80::1]/hook", "use https"),
        ("http://localhost.example/hook", "use https"),
        ("ftp://crm.example/hook", "not an https URL"),
        ("file:///etc/passwd", "not an https URL"),
        ("crm.example/hook", "not an https URL"),
        ("https:///hook", "not an https URL"),
        ("https://crm.example:99999/", "not a URL"),
        ("https://user:secret@crm.example/hook", "a user"),
        ("https://crm.example/hook#part", "fragment"),
        (f"https://crm.example/{'x' * 2000}", "not an https URL"),
    ],
)
@pytest.mark.parametrize("allow_private", [True, False])
def test_a_url_that_is_never_delivered_to(url: str, reason: str, *, allow_private: bool) -> None:
    with pytest.raises(RefusedAddress, match=reason):
        require_deliverable(url, allow_private=allow_private)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/hook",
        "http://localhost:8080/hook",
        "http://[::1]/hook",
        "http://[::ffff:127.0.0.1]/hook",
        "https://localhost/hook",
        "https://10.0.0.1/hook",
        "https://[fd00::1]/hook",
    ],
)
def test_a_url_of_a_private_address_needs_the_setting(url: str) -> None:
    require_deliverable(url, allow_private=True)
    with pytest.raises(RefusedAddress):
        require_deliverable(url, allow_private=False)


@pytest.mark.parametrize(
    "url", ["https://crm.example/hook", "https://1.1.1.1:8443/", "https://[2606:4700::1111]/h?a=b"]
)
def test_an_https_url_is_deliverable(url: str) -> None:
    require_deliverable(url, allow_private=False)


@pytest.mark.parametrize("resolved", ["127.0.0.1", "10.0.0.1", "::1", "::ffff:127.0.0.1"])
async def test_what_a_name_resolves_to_is_checked_when_the_connection_is_made(
    monkeypatch: pytest.MonkeyPatch, resolved: str
) -> None:
    """Whatever a name resolved to before, and for a number that is a name of 127.0.0.1 to the resolver."""
    resolve(monkeypatch, resolved)
    async with Sender(2.0, allow_private=False) as sender:
        answer = await sender.send("https://crm.example/hook", {}, b"{}")
    assert answer.status == 0
    assert "private network" in answer.text


def resolve(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Let every name resolve to an address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    rest = (0, 0) if ":" in address else ()

    def getaddrinfo(_host: object, port: Any, *_: object, **__: object) -> list[Any]:
        return [(family, socket.SOCK_STREAM, 6, "", (address, int(port), *rest))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


async def test_a_decimal_address_is_no_way_around() -> None:
    async with Sender(2.0, allow_private=False) as sender:
        answer = await sender.send("https://2130706433/hook", {}, b"{}")
    assert answer.status == 0


async def test_a_connection_goes_to_what_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is resolved once for it."""
    asked = list[object]()
    async with receiving() as receiver:
        real = socket.getaddrinfo

        def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
            asked.append(host)
            return real(host, *arguments, **options)

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        async with Sender(2.0, allow_private=True) as sender:
            answer = await sender.send(receiver.url.replace("127.0.0.1", "localhost"), {}, b"{}")
    assert answer.status == 204
    assert asked == ["localhost"]


async def test_no_more_is_read_of_an_answer_than_is_shown() -> None:
    async def answer_much(_: int) -> web.Response:
        return web.Response(status=500, body=b"no\x1b[2J room " * 1_000_000)

    async with receiving(answer_much) as receiver, Sender(5.0, allow_private=True) as sender:
        answer = await sender.send(receiver.url, {}, b"{}")
    assert (answer.status, len(answer.text) <= 200, "\x1b" in answer.text) == (500, True, False)
    assert not answer.is_accepted


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("-1", 0.0),
        ("99999999999999", 3600.0),
        ("soon", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
async def test_how_long_a_receiver_asks_to_be_left_alone(text: str, seconds: float) -> None:
    async def refuse(_: int) -> web.Response:
        return web.Response(status=503, headers={"Retry-After": text})

    async with receiving(refuse) as receiver, Sender(5.0, allow_private=True) as sender:
        assert (await sender.send(receiver.url, {}, b"{}")).retry_after == seconds


async def test_a_receiver_that_does_not_answer_is_not_waited_for() -> None:
    async def hang(_: int) -> int:
        await asyncio.sleep(30)
        return 200

    async with receiving(hang) as receiver, Sender(0.3, allow_private=True) as sender:
        assert await sender.send(receiver.url, {}, b"{}") == (0, "did not answer in time", 0.0)
