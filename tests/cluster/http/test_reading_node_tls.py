"""`ReadingNode` over TLS: certificates are checked against the authority that the settings name."""

import ssl
from pathlib import Path

import pytest
import trustme
from elastic_transport import ConnectionTimeout, TlsError

from tests.cluster.http.http_responses import chunked, split, with_length
from tests.loops import on_each_loop
from tests.network.server import answering, serving, silent
from tests.waiting import until

BODY = bytes(range(256)) * 12_000
CHUNKED = chunked(split(BODY, 270_000))


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path) -> str:
    """The file of the authority's own certificate."""
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


def certificate(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


@on_each_loop
async def test_a_trusted_server_answers(authority: trustme.CA, trusted: str) -> None:
    async with serving(answering(with_length(BODY), CHUNKED), certificate(authority, "localhost")) as server:
        node = server.node("https", ca_certs=trusted)
        for _ in range(3):
            assert (await node.perform_request("GET", "/")).body == BODY
        assert server.accepted == 1
        await node.close()
        await until(lambda: server.open == 0)


@on_each_loop
async def test_a_time_out_ends_a_secured_connection_too(authority: trustme.CA, trusted: str) -> None:
    async with serving(silent(after=CHUNKED[:90]), certificate(authority, "localhost")) as server:
        # On a busy machine the time may be over before there is a secured connection.
        for seconds in (0.5, 5.0, 30.0):
            with pytest.raises(ConnectionTimeout):
                await server.node("https", ca_certs=trusted, request_timeout=seconds).perform_request("GET", "/")
            if server.requests:
                break
        assert server.requests
        await until(lambda: server.open == 0)


@pytest.mark.parametrize("name", ["localhost", "elsewhere.example"])
@on_each_loop
async def test_an_unknown_authority_and_another_name_are_refused(
    authority: trustme.CA, trusted: str, name: str
) -> None:
    signing = trustme.CA() if name == "localhost" else authority

    async with serving(answering(with_length(BODY)), certificate(signing, name)) as server:
        with pytest.raises(TlsError):
            await server.node("https", ca_certs=trusted).perform_request("GET", "/")
        assert server.requests == []
