"""Files that a service redirects to: the client resumes them, and the store gets neither the key nor conditions."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from brokerage_feed.errors import FeedRequestRejected
from brokerage_feed.feed import Feed
from brokerage_feed.published_files import FileUpdater
from tests.consumer.conftest import ServedStandIn, open_pull
from tests.consumer.stand_in_files import PublishedStandIn
from tests.consumer.stand_in_service import KEY, StandInService
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
            pull._files = FileUpdater(pull.feed, pull.copy, tmp_path / ".files")
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
        with pytest.raises(FeedRequestRejected, match="redirects to http://, which is not followed"):
            await feed.download("listings", file, tmp_path / "file")
