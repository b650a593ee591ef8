"""Files that a service redirects to: the client resumes them, and the store gets neither the key nor conditions."""

import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import TCPConnector

from brokerage_feed.errors import FeedRequestRejected, FeedUnavailable
from brokerage_feed.feed import Feed
from brokerage_feed.limits import FeedLimits, Network, NotingConnector, network_of
from tests.consumer.conftest import ServedStandIn, open_pull, run
from tests.consumer.stand_in_files import PublishedStandIn
from tests.consumer.stand_in_service import KEY, StandInService
from tests.internals import read_from_files
from tests.network.http import Reply, Request, http
from tests.network.server import serving
from tests.tls import Authority


@dataclass
class StandInStore:
    """An object store with published files; `expired` redirects are refused first."""

    published: PublishedStandIn
    expired: int = 0
    asked: list[Request] = field(default_factory=list)

    async def reply(self, request: Request) -> Reply:
        """Return a part of a file, or refuse."""
        self.asked.append(request)
        if self.expired:
            self.expired -= 1
            return Reply(status=403, body=b"<Error/>")
        return self.published.part(request, request.path.rpartition("/")[2])


async def test_a_download_follows_redirects_and_asks_for_another_after_a_cut(
    served: ServedStandIn, tmp_path: Path
) -> None:
    """The store gets the URL as it was signed, the range, and nothing that is meant for the service."""
    for number in range(300):
        served.stand_in.put("listings", f"k{number:05}", text="x" * 50)
    held = len(served.stand_in.live("listings"))
    published = served.stand_in.publish("listings", held)
    published.cuts = [1_000]
    store = StandInStore(published, expired=1)
    async with serving(http(store.reply)) as server:
        published.elsewhere = server.url
        async with open_pull(served.url, tmp_path, resources=("listings",)) as (pull, _):
            read_from_files(pull, tmp_path / ".files")
            await pull.catch_up()
            assert pull.copy.count("listings") == held
    assert [request.headers.get("range") for request in store.asked] == [None, None, "bytes=1000-"]
    assert {request.target.partition("?")[2] for request in store.asked} == {"signature=a%2Fb%2B"}
    for request in store.asked:
        assert not {"x-api-key", "if-range", "authorization", "cookie"} & {name.lower() for name in request.headers}
        assert KEY not in str(request)
    downloads = [path for path, _ in served.stand_in.asked if ".zst" in path]
    assert len(downloads) == 3


@pytest.mark.parametrize("place", ["ftp://127.0.0.1", "/v1", "//host", "file:///etc/passwd", "http://[::"])
async def test_other_redirects_are_refused(served: ServedStandIn, tmp_path: Path, place: str) -> None:
    """Records may not cross the network less protected than the service sends them."""
    published = served.stand_in.publish("listings", 1_000)
    published.elsewhere = place
    async with Feed(served.url, KEY, {}) as feed:
        (file,) = (await feed.published("listings")).files
        with pytest.raises(FeedRequestRejected, match="redirects to"):
            await feed.download("listings", file, tmp_path / "file")


async def test_a_service_with_tls_redirects_to_nothing_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of an https service must not cross the network in the clear."""
    authority = Authority(tmp_path)
    trusting = ssl.create_default_context(cafile=authority.path)
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trusting)
    stand_in, certificate = StandInService(), authority.server(authority.ca.issue_cert("localhost"))
    stand_in.put("listings", "k1")
    published = stand_in.publish("listings", 1)
    async with serving(http(stand_in.reply), certificate) as server, Feed(server.url, KEY, {}) as feed:
        published.elsewhere = server.url.replace("https:", "http:")
        (file,) = (await feed.published("listings")).files
        with pytest.raises(
            FeedRequestRejected, match="redirects to http://localhost, which is not followed: only https"
        ):
            await feed.download("listings", file, tmp_path / "file")


@pytest.mark.parametrize("fault", ["of another host", "of an unknown authority"])
@pytest.mark.parametrize("of_store", [False, True])
async def test_whose_certificate_is_not_its_own_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, *, of_store: bool
) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path)
    trusting = ssl.create_default_context(cafile=(authority if fault == "of another host" else other).path)
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trusting)
    stand_in = StandInService()
    stand_in.put("listings", "k1")
    published = stand_in.publish("listings", 1)
    store = StandInStore(published)
    name = "elsewhere.test" if fault == "of another host" else "localhost"
    wrong = authority.server(authority.ca.issue_cert(name))
    reply = store.reply if of_store else stand_in.reply
    async with serving(http(reply), wrong) as bad, serving(http(stand_in.reply)) as good:
        published.elsewhere = bad.url
        limits = FeedLimits(file_hosts=frozenset({"localhost"}))
        async with Feed(good.url if of_store else bad.url, KEY, {}, attempts=1, limits=limits) as feed:
            listed = (await feed.published("listings")).files if of_store else []
            asked = feed.download("listings", listed[0], tmp_path / "file") if listed else feed.published("listings")
            with pytest.raises(FeedUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
                await asked
    assert not store.asked
    assert of_store or not stand_in.asked


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Addresses of host names, in place of those that a resolver would find."""
    found, resolve = dict[str, str](), socket.getaddrinfo

    def getaddrinfo(host: str, *arguments: Any, **options: Any) -> Any:
        return resolve(found.get(host, host), *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return found


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("http://169.254.169.254/latest/meta-data", "only https:// is followed to another host"),
        ("http://localhost:1", "only https:// is followed to another host"),
        ("https://169.254.169.254", "a link-local address"),
        ("https://[fe80::1]", "a link-local address"),
        ("https://[::ffff:169.254.169.254]", "a link-local address"),
        ("https://[64:ff9b::a9fe:a9fe]", "a link-local address"),
        ("https://2852039166", "not a canonical IPv4 address"),
        ("https://metadata.test", "a link-local address"),
        ("https://10.0.0.1", "a private address"),
        ("https://intranet.test", "a private address"),
        ("https://[fd00:ec2::254]", "a private address"),
        ("https://100.64.0.1", "a private address"),
    ],
)
async def test_redirects_into_other_networks_are_refused(
    served: ServedStandIn, tmp_path: Path, names: dict[str, str], place: str, reason: str
) -> None:
    """The address counts that is connected to, however it is written or resolved; nothing is sent there."""
    names.update({"metadata.test": "169.254.169.254", "intranet.test": "192.168.1.1"})
    published = served.stand_in.publish("listings", 1_000)
    published.elsewhere = place
    async with Feed(served.url, KEY, {}) as feed:
        (file,) = (await feed.published("listings")).files
        with pytest.raises(FeedRequestRejected, match=f"{reason}.*BROKERAGE_PULL_FILE_HOSTS"):
            await feed.download("listings", file, tmp_path / "file")
    assert sum(".zst" in path for path, _ in served.stand_in.asked) == 1


async def test_a_service_elsewhere_redirects_to_no_address_of_this_host(
    served: ServedStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service with a public address may not reach what only this host can."""
    reached: list[Request] = []

    async def reply(request: Request) -> Reply:
        reached.append(request)
        return Reply()

    monkeypatch.setattr(NotingConnector, "connect", TCPConnector.connect)
    published = served.stand_in.publish("listings", 1_000)
    async with serving(http(reply)) as local, Feed(served.url, KEY, {}) as feed:
        published.elsewhere = local.url
        (file,) = (await feed.published("listings")).files
        with pytest.raises(FeedRequestRejected, match="a loopback address"):
            await feed.download("listings", file, tmp_path / "file")
        assert local.accepted == 0


async def test_an_operator_names_the_hosts_of_other_stores(served: ServedStandIn, tmp_path: Path) -> None:
    published = served.stand_in.publish("listings", 1_000)
    store = StandInStore(published)
    async with serving(http(store.reply)) as server:
        host = f"localhost:{server.port}"
        published.elsewhere = f"http://{host}"
        pulled = (tmp_path, "--url", served.url, "--resources", "listings")
        code, _, err = await run(*pulled)
        assert (code, store.asked) == (1, [])
        assert "redirects to http://localhost, which is not followed" in err
        code, _, err = await run(*pulled, BROKERAGE_PULL_FILE_HOSTS=f"minio.internal, {host}")
        assert (code, err) == (0, "")
        assert len(store.asked) == 1


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("8.8.8.8", Network.PUBLIC),
        ("2606:4700::1111", Network.PUBLIC),
        ("127.9.9.9", Network.LOOPBACK),
        ("0.0.0.0", Network.LOOPBACK),  # noqa: S104 - an address
        ("::", Network.LOOPBACK),
        ("::1", Network.LOOPBACK),
        ("::ffff:127.0.0.1", Network.LOOPBACK),
        ("2002:7f00:1::", Network.LOOPBACK),
        ("169.254.0.1", Network.LINK_LOCAL),
        ("fe80::1%1", Network.LINK_LOCAL),
        ("64:ff9b::a9fe:a9fe", Network.LINK_LOCAL),
        ("172.16.0.1", Network.PRIVATE),
        ("100.64.0.1", Network.PRIVATE),
        ("192.0.2.1", Network.PRIVATE),
        ("224.0.0.1", Network.PRIVATE),
        ("255.255.255.255", Network.PRIVATE),
        ("fec0::1", Network.PRIVATE),
        ("64:ff9b:1::1", Network.PRIVATE),
        ("::10.0.0.1", Network.PRIVATE),
        ("::127.0.0.1", Network.LOOPBACK),
        ("ff02::1", Network.PRIVATE),
    ],
)
def test_an_address_is_in_one_network(address: str, network: Network) -> None:
    assert network_of(address) is network
