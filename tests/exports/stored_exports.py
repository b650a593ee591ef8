"""The service over an object store that tests publish to."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
from aiohttp.test_utils import TestClient, TestServer

from service.app import create_app
from service.exports.object_store import QUICK, ObjectStore, open_store
from service.publishing.publisher import publish
from service.publishing.store_target import TargetStore
from service.services import SERVICES, Services
from service.settings import ServiceSettings
from tests.exports.conftest import Exports, Silence
from tests.exports.store_server import BUCKET, ENDPOINT, empty_store, running_store, store_environment
from tests.exports.test_serving import Answer
from tests.feed.feed_client import FeedClient
from tests.network.link import Cut
from tests.network.proxy import Proxy
from tests.service_settings import with_settings

PLACE = f"s3://{BUCKET}/files"


class RecordingProxy(Proxy):
    """A proxy that keeps what requests begin with."""

    asked: tuple[bytes, ...] = ()

    def _asked(self, piece: bytes) -> Cut | None:
        self.asked += (piece,)
        return super()._asked(piece)


@dataclass(frozen=True)
class Stored:
    """The service over an object store, behind a proxy."""

    feed: FeedClient
    proxy: RecordingProxy
    store: ObjectStore
    settings: ServiceSettings

    async def publish(self, *companies: str) -> Silence:
        """Publish, and return what was reported."""
        display = Silence()
        await publish(self.feed.bench.connection, self.settings, TargetStore(PLACE), companies, display)
        return display

    def names(self, prefix: str = "") -> set[str]:
        """Return the keys of all objects."""
        return {each["path"] for some in self.store.list(prefix) for each in some}

    @property
    def services(self) -> Services:
        """The services of the application."""
        found: Services = self.feed.http.server.app[SERVICES]  # type: ignore[attr-defined]
        return found

    async def fetched(self, url: str, key: str = "a", method: str = "GET", **headers: str) -> Answer:
        """Return the response to a request without what it leads to."""
        given = {"x-api-key": self.feed.keys[key], **{name.replace("_", "-"): text for name, text in headers.items()}}
        async with self.feed.http.request(method, url, headers=given, allow_redirects=False) as answer:
            return Answer(answer.status, answer.headers, await answer.read())


@pytest.fixture(scope="session")
def store_endpoint() -> Iterator[str]:
    """The address of a server for all tests."""
    with running_store() as endpoint:
        yield endpoint


@pytest.fixture
async def stored(exports: Exports, store_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stored]:
    """Listings and offices of the companies a and b, and an empty store."""
    empty_store(store_endpoint)
    for name, value in store_environment(store_endpoint).items():
        monkeypatch.setenv(name, value)
    # Not through the proxy, which needs the event loop.
    store = open_store(PLACE, QUICK)
    async with RecordingProxy(store_endpoint).running() as proxy:
        assert isinstance(proxy, RecordingProxy)
        monkeypatch.setenv(ENDPOINT, proxy.url)
        settings = with_settings(exports.settings, exports=PLACE)
        async with TestClient(TestServer(create_app(settings, exports.feed.bench.connection))) as http:
            yield Stored(FeedClient(http, exports.feed.keys, exports.feed.bench), proxy, store, settings)
