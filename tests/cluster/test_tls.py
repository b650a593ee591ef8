"""Certificates by an authority's file, by a fingerprint, by both: believed, or refused with what to change."""

import asyncio
import contextlib
import datetime as dt
import gc
import socket
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from elastic_transport import TlsError
from trustme import LeafCert

from cluster.client import TypedNode
from cluster.connection import ConnectionSettings, connect
from cluster.http.nodes import ReadingNode
from cluster.settings import SettingError
from cluster.tls import TlsContext
from tests.cluster.http.http_responses import with_length
from tests.loops import Run, on_each_loop
from tests.network.server import answering, serving
from tests.tls import Authority, fingerprint

ANSWER = with_length(b"{}").replace(
    b"\r\n\r\n", b"\r\nx-elastic-product: Elasticsearch\r\ncontent-type: application/json\r\n\r\n", 1
)


class TlsRefusal(Exception):
    """What the transport's error says."""


NODES = (ReadingNode, TypedNode)
LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


@dataclass
class Certificates:
    """What servers of a test show, and another authority."""

    own: Authority
    other: Authority
    leaf: LeafCert

    def given(self, *settings: str) -> dict[str, Any]:
        """Return settings by short names."""
        known = {
            "file": {"ca_certs": self.own.path},
            "other file": {"ca_certs": self.other.path},
            "signs": {"fingerprint": self.own.fingerprint},
            "colons": {"fingerprint": ":".join(_pairs(self.own.fingerprint.upper()))},
            "node": {"fingerprint": fingerprint(self.leaf.cert_chain_pems[0].bytes())},
            "other signs": {"fingerprint": self.other.fingerprint},
        }
        return {name: value for setting in settings for name, value in known[setting].items()}


def _pairs(digits: str) -> list[str]:
    return [digits[at : at + 2] for at in range(0, len(digits), 2)]


@pytest.fixture
def shown(tmp_path: Path) -> Certificates:
    """A server's certificate for localhost."""
    own, other = (Authority(tmp_path / name) for name in _folders(tmp_path))
    return Certificates(own, other, own.ca.issue_cert("localhost"))


def _folders(path: Path) -> tuple[str, str]:
    for name in ("own", "other"):
        (path / name).mkdir()
    return "own", "other"


async def asked(certificate: ssl.SSLContext, kind: type[Any], settings: dict[str, Any], times: int = 1) -> int:
    """Ask a server that shows a certificate; return the number of its connections, or raise the transport's error."""
    async with serving(answering(ANSWER), certificate) as server:
        given = ConnectionSettings(url=(f"https://localhost:{server.port}",), **settings)
        async with connect(given, connections=4, timeout=20, node_class=kind) as client:
            try:
                for _ in range(times):
                    await client.perform_request("GET", "/", headers={"accept": "application/json"})
            except TlsError as error:
                assert server.requests == []  # neither a question nor credentials were sent
                raise TlsRefusal(error.message) from error
        return server.accepted


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize(
    ("settings", "connections"),
    [
        (("file",), 1),
        (("signs",), 2),  # one of them to look
        (("colons",), 2),
        (("node",), 2),
        (("file", "signs"), 2),
        (("file", "node"), 2),
    ],
)
def test_what_the_settings_name_is_believed_and_looked_at_once_a_connection(
    run: Run, shown: Certificates, kind: type[Any], settings: tuple[str, ...], connections: int
) -> None:
    certificate = shown.own.server(shown.leaf)
    assert run(asked(certificate, kind, shown.given(*settings), times=4)) == connections


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ((), "set BROKERAGE_ELASTICSEARCH_CA_CERTS or BROKERAGE_ELASTICSEARCH_FINGERPRINT"),
        (("other file",), "The certificate of localhost is not signed by the one in BROKERAGE_ELASTICSEARCH_CA_CERTS"),
        (("other signs",), "has the fingerprint in BROKERAGE_ELASTICSEARCH_FINGERPRINT."),
        (("file", "other signs"), "has the fingerprint in BROKERAGE_ELASTICSEARCH_FINGERPRINT."),
        (("other file", "signs"), "is not signed by the one in"),
    ],
)
def test_an_unknown_certificate_is_refused_naming_the_setting(
    run: Run, shown: Certificates, kind: type[Any], settings: tuple[str, ...], said: str
) -> None:
    certificate = shown.own.server(shown.leaf)
    with pytest.raises(TlsRefusal, match=said):
        run(asked(certificate, kind, shown.given(*settings)))


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("setting", ["file", "signs"])
def test_another_name_is_refused(run: Run, shown: Certificates, kind: type[Any], setting: str) -> None:
    certificate = shown.own.server(shown.own.ca.issue_cert("elsewhere.example"))
    with pytest.raises(TlsRefusal, match="is for other names: use one of them in ELASTICSEARCH_URL"):
        run(asked(certificate, kind, shown.given(setting)))


@pytest.mark.parametrize("kind", NODES)
def test_the_fingerprint_of_the_nodes_own_certificate_replaces_its_name(
    run: Run, shown: Certificates, kind: type[Any]
) -> None:
    shown.leaf = shown.own.ca.issue_cert("elsewhere.example")
    certificate = shown.own.server(shown.leaf)
    assert run(asked(certificate, kind, shown.given("node")))
    with pytest.raises(TlsRefusal, match="is for other names"):
        run(asked(certificate, kind, shown.given("file", "node")))


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("setting", ["file", "signs", "node"])
def test_an_expired_certificate_is_refused(run: Run, shown: Certificates, kind: type[Any], setting: str) -> None:
    shown.leaf = shown.own.ca.issue_cert("localhost", not_before=LONG_AGO, not_after=LONG_AGO + dt.timedelta(days=9))
    with pytest.raises(TlsRefusal, match="ELASTICSEARCH_URL, has expired"):
        run(asked(shown.own.server(shown.leaf), kind, shown.given(setting)))


@pytest.mark.parametrize("kind", NODES)
def test_an_authority_that_is_only_shown_signs_nothing(run: Run, shown: Certificates, kind: type[Any]) -> None:
    # An eavesdropper can show the cluster's authority, whose certificate is public, behind one of his own.
    impostor = shown.own.server(shown.other.ca.issue_cert("localhost"))
    with pytest.raises(TlsRefusal, match="is not signed by the one in BROKERAGE_ELASTICSEARCH_FINGERPRINT"):
        run(asked(impostor, kind, shown.given("signs")))


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("setting", ["file", "signs"])
@on_each_loop
async def test_plain_http_to_a_tls_port_is_reported(shown: Certificates, kind: type[Any], setting: str) -> None:
    async def bad_request(connection: Any) -> None:
        await connection.reader.read(1)
        await connection.send(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        await connection.reader.read()

    async with serving(bad_request) as server:
        url = (f"https://localhost:{server.port}",)
        given = ConnectionSettings(url=url, **shown.given(setting))
        async with connect(given, connections=1, timeout=20, node_class=kind) as client:
            with pytest.raises(TlsError) as caught:
                await client.perform_request("GET", "/")
            assert "ELASTICSEARCH_URL must begin with http://" in caught.value.message


SECURED, PLAIN = ("https://node:9200",), ("http://node:9200",)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": SECURED, "api_key": "k", "username": "u", "password": "p"}, "_API_KEY and .*_USERNAME are both"),
        ({"url": SECURED, "password": "p"}, "_USERNAME and .*_PASSWORD must be set together"),
        ({"url": SECURED, "username": "u"}, "_USERNAME and .*_PASSWORD must be set together"),
        ({"url": ("https://u:p@node:9200",), "api_key": "k"}, "ELASTICSEARCH_URL contains a user"),
        ({"url": PLAIN, "fingerprint": "ab" * 32}, "_FINGERPRINT is set and ELASTICSEARCH_URL begins with http:"),
        ({"url": PLAIN, "ca_certs": "/none"}, "_CA_CERTS is set and ELASTICSEARCH_URL begins with http:"),
        ({"url": SECURED + PLAIN}, "ELASTICSEARCH_URL mixes"),
        ({"url": ("node:9200",)}, "ELASTICSEARCH_URL is not valid"),
        ({"url": ("https://u:hush@node",)}, "ELASTICSEARCH_URL is not valid"),
        ({"url": SECURED, "fingerprint": "ab" * 31}, "BROKERAGE_ELASTICSEARCH_FINGERPRINT is not valid"),
        ({"url": SECURED, "fingerprint": "xy" * 32}, "BROKERAGE_ELASTICSEARCH_FINGERPRINT is not valid"),
        ({"url": SECURED, "ca_certs": "/none"}, "BROKERAGE_ELASTICSEARCH_CA_CERTS names /none, which cannot be read"),
        ({"url": SECURED, "ca_certs": __file__}, "_CA_CERTS names .* contains no PEM certificates"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_by_name(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said) as caught:
        ConnectionSettings(**settings)
    assert "hush" not in str(caught.value)


def test_no_setting_turns_verification_off() -> None:
    trust = ConnectionSettings(url=SECURED).tls_context()
    assert trust is not None
    assert (trust.verify_mode, trust.check_hostname) == (ssl.CERT_REQUIRED, True)
    pinned = ConnectionSettings(url=SECURED, fingerprint="ab" * 32).tls_context()
    assert pinned is not None
    assert (pinned.verify_mode, pinned.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert pinned.cert_store_stats()["x509"] == 0


@pytest.mark.parametrize(("setting", "is_trusted"), [("file", True), ("signs", True), ("other signs", False)])
@on_each_loop
async def test_a_silent_node_is_asked_over_verified_tls_too(
    shown: Certificates, setting: str, is_trusted: bool
) -> None:
    async with serving(answering(ANSWER), shown.own.server(shown.leaf)) as server:
        given = ConnectionSettings(url=(f"https://localhost:{server.port}",), **shown.given(setting))
        node = server.node("https", ssl_context=given.tls_context())
        with contextlib.nullcontext() if is_trusted else pytest.raises(OSError):  # noqa: PT011 - any will do
            await node.probe()
        assert len(server.requests) == is_trusted
        await node.close()


def test_a_look_leaves_no_connection_behind_although_the_other_side_never_says_that_it_has_closed(
    shown: Certificates,
) -> None:
    over, trust = threading.Event(), TlsContext(fingerprint=shown.own.fingerprint)
    with socket.create_server(("localhost", 0)) as listener:

        def shake_hands() -> None:
            with shown.own.server(shown.leaf).wrap_socket(listener.accept()[0], server_side=True):
                over.wait()

        server = threading.Thread(target=shake_hands)
        server.start()
        try:
            asyncio.run(trust.resolve_fingerprint("localhost", listener.getsockname()[1]))
        finally:
            over.set()
            server.join()
    gc.collect()  # an open transport warns, which fails a test
