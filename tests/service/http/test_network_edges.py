"""Clients over IPv6, spoofed addresses, and TLS on the port of plain HTTP, over real connections."""

import itertools
import ssl
from typing import Any

import orjson
import pytest

from tests.service.raw_http import RawResponse, exchange, request, serve_raw
from tests.service.stand_in import StandIn

HERE = "::1"
FORGED: list[list[str]] = [
    ["X-Forwarded-For: 203.0.113.{}"],
    ["X-Forwarded-For: 203.0.113.{}:4711"],
    ["X-Forwarded-For: 2a00:1:2:{}::9"],
    ["X-Forwarded-For: [2a00:1:2:{}::9]:4711"],
    ["X-Forwarded-For: 10.0.0.1", "X-Forwarded-For: 203.0.113.{}"],
    ["X-Forwarded-For: ::ffff:10.0.0.{}"],
    ["x-forwarded-for: 127.0.0.1, ::1, 203.0.113.{}"],
    ["X-Real-IP: 203.0.113.{}"],
    ["Forwarded: for=203.0.113.{}"],
    ["X-Client-IP: 203.0.113.{}", "True-Client-IP: 203.0.113.{}"],
]
_COMPANIES = "/v1/companies"


async def ask(port: int, *lines: str, address: str = HERE, path: str = _COMPANIES) -> RawResponse:
    """Request over a connection of its own, with these lines as headers."""
    sent = request(path).replace(b"Host: x\r\n", "".join(f"{line}\r\n" for line in ("Host: x", *lines)).encode())
    (answer,) = await exchange(port, sent, address=address)
    return answer


async def test_a_client_over_ipv6_is_served_with_links_to_its_host(stand_in: StandIn) -> None:
    key = stand_in.grant()
    async with serve_raw(stand_in.url, address=HERE) as port:
        sent = request("/v1/reso", headers={"x-api-key": key}).replace(b"Host: x", f"Host: [::1]:{port}".encode())
        (answer,) = await exchange(port, sent, address=HERE)
    assert answer.status == 200
    assert orjson.loads(answer.body)["@odata.context"].startswith(f"http://[::1]:{port}/v1/reso/")


@pytest.mark.parametrize("forged", FORGED, ids=" and ".join)
@pytest.mark.parametrize("address", [HERE, "127.0.0.1"])
async def test_forged_addresses_do_not_evade_the_limit_of_failures(
    stand_in: StandIn, address: str, forged: list[str]
) -> None:
    async with serve_raw(stand_in.url, address=address, failures_per_minute=1, trusted_proxies=("10.0.0.0/8",)) as port:
        answers = [
            await ask(port, "x-api-key: wrong", *(line.format(number) for line in forged), address=address)
            for number in range(3)
        ]
    assert [answer.status for answer in answers] == [401, 429, 429]


async def test_behind_a_trusted_proxy_only_its_own_addition_counts(stand_in: StandIn) -> None:
    """A proxy appends the address of its peer to whatever the client sent, in the same line or in another."""
    trusted: dict[str, Any] = {"failures_per_minute": 1, "trusted_proxies": (f"{HERE}/128",)}
    async with serve_raw(stand_in.url, address=HERE, **trusted) as port:
        forms = (
            "X-Forwarded-For: 198.51.100.{}, 203.0.113.9",
            "X-Forwarded-For: 198.51.100.{}\r\nX-Forwarded-For: 203.0.113.9",
        )
        lines = [form.format(number) for form, number in itertools.product(forms, range(2))]
        answers = [await ask(port, "x-api-key: wrong", line) for line in lines]
    assert [answer.status for answer in answers] == [401, 429, 429, 429]


def client_hello(minimum: ssl.TLSVersion) -> bytes:
    """Return the first bytes of a TLS connection."""
    context, sent = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.MemoryBIO()
    context.minimum_version = minimum
    connection = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="brokerage.example")
    with pytest.raises(ssl.SSLWantReadError):
        connection.do_handshake()
    return sent.read()


@pytest.mark.parametrize(
    "sent",
    [
        client_hello(ssl.TLSVersion.TLSv1_2),
        client_hello(ssl.TLSVersion.TLSv1_3)[:40],
        b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10",  # SSL 2
        b"\x16\x03\x00\x00\x2f\x01\x00\x00\x2b\x03\x00",  # SSL 3
    ],
    ids=["TLS 1.2", "part of TLS 1.3", "SSL 2", "SSL 3"],
)
async def test_tls_on_the_port_of_plain_http_is_refused_and_closed(stand_in: StandIn, sent: bytes) -> None:
    """The service has no TLS of its own: a proxy ends it."""
    async with serve_raw(stand_in.url, address=HERE) as port:
        for _ in range(50):
            answers = await exchange(port, sent, address=HERE)
            assert [answer.status for answer in answers] == [400]
            assert b"brokerage.example" not in answers[0].body
        assert (await ask(port, path="/livez")).status == 200
