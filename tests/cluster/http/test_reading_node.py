"""`ReadingNode` asks over real sockets: answers of every framing, the head that is sent, and the official transport."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from elastic_transport import HttpHeaders, NodeConfig
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings, connect
from cluster.http.nodes import ReadingNode
from cluster.http.responses import RAW_HEADERS
from tests.cluster.http.http_responses import OK, chunked, split, until_close, with_length
from tests.loops import on_each_loop
from tests.network.server import answering, serving

LARGE = bytes(range(256)) * 78_125  # 20 MB
ANSWERS = {
    "of known length": (with_length(b'{"a":1}'), b'{"a":1}'),
    "in chunks": (chunked([b'{"a"', b":1}"]), b'{"a":1}'),
    "in chunks with trailer": (chunked([b"ab"], trailer=b"a: b\r\n"), b"ab"),
    "until the end": (until_close(b"ab"), b"ab"),
    "empty": (with_length(b""), b""),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "large": (with_length(LARGE), LARGE),
    "large in large chunks": (chunked(split(LARGE, 270_000)), LARGE),
    "large in small chunks": (chunked(split(LARGE, 8_192)), LARGE),
}


@pytest.mark.parametrize("kind", ANSWERS)
@on_each_loop
async def test_answers_of_every_framing_arrive(kind: str) -> None:
    sent, body = ANSWERS[kind]

    async def script(connection: Any) -> None:
        await connection.request()
        await connection.send(sent)
        if "until" not in kind:
            await connection.reader.read()

    async with serving(script) as server:
        node = server.node()
        answer = await node.perform_request("GET", "/")
        assert bytes(answer.body) == body
        assert answer.meta.status in {200, 204}
        await node.close()


@on_each_loop
async def test_status_headers_and_errors_are_passed_through() -> None:
    sent = with_length(b'{"error":1}', b"X-Elastic-Product: Elasticsearch", first=b"HTTP/1.1 503 Unavailable\r\n")
    async with serving(answering(sent)) as server:
        node = server.node()
        answer = await node.perform_request("POST", "/a/_search", b"{}")
        assert (answer.meta.status, answer.meta.headers["x-elastic-product"]) == (503, "Elasticsearch")
        assert bytes(answer.body) == b'{"error":1}'
        await node.close()


@on_each_loop
async def test_the_request_is_sent_whole() -> None:
    async with serving(answering(with_length(b""))) as server:
        node = server.node(path_prefix="/behind/a/proxy", headers={"authorization": "Basic eA==", "X-Own": "1"})
        body = b'{"size":1}' * 30_000
        await node.perform_request("POST", "/a/_search?x=%20", body, HttpHeaders({"X-OWN": "2", "accept": "b"}))
        await node.close()
        head, _, sent = server.requests[0].partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        assert (first, sent) == ("POST /behind/a/proxy/a/_search?x=%20 HTTP/1.1", body)
        headers = [line.split(": ", 1) for line in lines]
        received = {name.lower(): value for name, value in headers}
        assert len(received) == len(headers)
        assert received["host"] == f"127.0.0.1:{server.port}"
        assert received["content-length"] == str(len(body))
        assert (received["authorization"], received["x-own"], received["accept"]) == ("Basic eA==", "2", "b")


@on_each_loop
async def test_head_is_answered_without_a_body_and_the_connection_stays() -> None:
    async with serving(answering(OK + b"Content-Length: 99\r\n\r\n", with_length(b"x"))) as server:
        node = server.node()
        assert (await node.perform_request("HEAD", "/")).body == b""
        assert (await node.perform_request("GET", "/")).body == b"x"
        assert server.accepted == 1
        await node.close()


def test_the_host_of_an_ipv6_address_is_in_brackets() -> None:
    node = ReadingNode(NodeConfig("http", "::1", 9200))
    assert b"host: [::1]:9200\r\n" in node._encoded("GET", "/", b"", HttpHeaders())


@pytest.mark.parametrize("option", [{"http_compress": True}, {"ssl_assert_fingerprint": "aa" * 32}])
def test_what_the_node_cannot_do_is_refused_at_once(option: dict[str, Any]) -> None:
    scheme = "https" if "ssl_assert_fingerprint" in option else "http"
    with pytest.raises(ValueError, match=r"not supported|verified by the SSL context"):
        ReadingNode(NodeConfig(scheme, "localhost", 9200, **option))


@on_each_loop
async def test_the_official_transport_reads_over_it() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        text = await request.text()
        if request.path == "/chunked":
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            for _ in range(200):
                await response.write(b" " * 8_000)
            await response.write(text.encode())
            return response
        return web.Response(text=f"{request.method} {text}", content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with connect(ConnectionSettings(url=(url,)), connections=2, timeout=30, node_class=ReadingNode) as client:
        ask = client.transport.perform_request
        assert (await ask("POST", "/a", headers=RAW_HEADERS, body={"a": 1})).body == b'POST {"a":1}'
        assert (await ask("POST", "/chunked", headers=RAW_HEADERS, body={})).body == b" " * 1_600_000 + b"{}"
        answers = await asyncio.gather(*(ask("POST", "/a", headers=RAW_HEADERS, body={"a": at}) for at in range(30)))
        assert [answer.body for answer in answers] == [b'POST {"a":%d}' % at for at in range(30)]
    await runner.cleanup()


@on_each_loop
async def test_the_typed_client_reads_over_it_with_the_credentials_of_its_address() -> None:
    sent = with_length(
        b'{"found":true}', b"Content-Type: application/vnd.elasticsearch+json", b"X-Elastic-Product: Elasticsearch"
    )
    async with serving(answering(sent)) as server:
        url = f"http://someone:secret@127.0.0.1:{server.port}/base"
        async with AsyncElasticsearch(url, node_class=ReadingNode) as client:
            assert (await client.get(index="a", id="b")).body == {"found": True}
        assert server.requests[0].startswith(b"GET /base/a/_doc/b HTTP/1.1\r\n")
        assert b"\r\nauthorization: Basic c29tZW9uZTpzZWNyZXQ=\r\n" in server.requests[0]
