"""The Elasticsearch that tests run against, and an installation of its own for each test."""

import gc
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings, connect
from embedded import VERSION, EmbeddedCluster, NodeOptions
from service.app import reading_client
from tests.image.podman import obstacle
from tests.internals import Internals
from tests.logs import logged
from tests.loops import pause_after_writelines
from tests.tiers import TIERS, needs_more_than_python, tier_of

_DELETED_TOGETHER = 20
_MEMORY = "/dev/shm"  # noqa: S108 - nothing there has a name that can be guessed
_MEMORY_BYTES = 8 * 2**30
_IMAGE = Path(__file__).with_name("image")
_SHIPPED = _IMAGE / "test_shipped_image.py"
_SHARED = pytest.StashKey[EmbeddedCluster]()
_NODE_URL = "embedded_url"
_LONG_AND_LAST = [Path(__file__).with_name(name) for name in ("upgrade", "site", "siege")]


def pytest_configure(config: pytest.Config) -> None:
    """Set how many examples hypothesis tries, and the environment of what tests start."""
    # No test asserts a time, hypothesis included: a busy machine is not a defect.
    hypothesis.settings.register_profile("usual", deadline=None, max_examples=50)
    hypothesis.settings.register_profile("soak", deadline=None, max_examples=1_000)
    hypothesis.settings.load_profile("soak" if config.getoption("--soak") else "usual")
    _keep_files_in_memory()
    pause_after_writelines()
    # Nodes of tests live for minutes: Java's optimizing compiler would take 40 % of their processor time and never pay.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")


def _keep_files_in_memory() -> None:
    """Let what tests write lie in memory where there is plenty: it is thrown away, and no disk need keep up.

    TMPDIR decides where it is set. Elasticsearch loads libraries from there, which a folder may forbid.
    """
    if "TMPDIR" in os.environ or not Path(_MEMORY).is_dir():
        return
    about = os.statvfs(_MEMORY)
    if about.f_bavail * about.f_frsize >= _MEMORY_BYTES and not about.f_flag & os.ST_NOEXEC:
        tempfile.tempdir = os.environ["TMPDIR"] = _MEMORY


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give the processes of `make test` one node together: each of them takes a processor a minute until it is warm.

    Tests of that tier change no setting of a node. Those of `make check` do, so there each process has its own.
    """
    config: pytest.Config = node.config
    if config.getoption("--tier") != "test" or "ELASTICSEARCH_URL" in os.environ or _docker_runs():
        return
    if _SHARED not in config.stash:
        config.stash[_SHARED] = EmbeddedCluster(NodeOptions(ephemeral=True))
        config.stash[_SHARED].start()
        config.add_cleanup(config.stash[_SHARED].stop)
    node.workerinput[_NODE_URL] = config.stash[_SHARED].url


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the other tier, and begin with what takes long: one process would end with it alone."""
    if (tier := config.getoption("--tier")) is not None:
        tiers = [tier_of(item) for item in items]
        config.hook.pytest_deselected(items=[item for item, other in zip(items, tiers, strict=True) if other != tier])
        items[:] = [item for item, own in zip(items, tiers, strict=True) if own == tier]
    items.sort(key=lambda item: not any(folder in item.path.parents for folder in _LONG_AND_LAST))


def pytest_collection_finish() -> None:
    """Leave what was imported to all tests out of every later garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make soak` ask for the full number of repetitions, and `make image` for the tests of the image."""
    parser.addoption("--tier", choices=TIERS, help="the tests of `make test`, or those that `make check` adds")
    parser.addoption("--shards", type=int, default=1, help="shards of each index that the tests build")
    parser.addoption("--soak", action="store_true", help="repeat as often as the published figures say")
    parser.addoption("--image", action="store_true", help="collect all of tests/image (as root)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a test `@pytest.mark.seeds(USUAL, FULL)` with as many seeds; the second number is that of soaks."""
    if marker := metafunc.definition.get_closest_marker("seeds"):
        metafunc.parametrize("seed", range(marker.args[metafunc.config.getoption("--soak")]))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what only `make check` or `make image` runs, and the tests of an image that cannot be built."""
    if config.getoption("--tier") == "test" and needs_more_than_python(collection_path):
        return True
    if collection_path.parent != _IMAGE or not collection_path.match("test_*") or config.getoption("--image"):
        return None
    return True if collection_path != _SHIPPED or obstacle() else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say at the end of a run of all tests that those of the image were left out, and why."""
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if is_whole and config.getoption("--tier") != "test" and not config.getoption("--image") and (reason := obstacle()):
        terminalreporter.write_line(f"The image was not built and run: {reason}.", yellow=True)


@pytest.fixture
def internals(monkeypatch: pytest.MonkeyPatch) -> Internals:
    """Sets what the product waits for, how much it takes at once, and what it takes for the time."""
    return Internals(monkeypatch)


@pytest.fixture(scope="session")
def amount(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Return the first number, how often something is repeated in every run, or with `--soak` the second."""
    is_soak = request.config.getoption("--soak")
    return lambda usual, full: full if is_soak else usual


@pytest.fixture(scope="session")
def shards(request: pytest.FixtureRequest) -> int:
    """How many shards the indices of the indexer's tests have: `--shards`."""
    number: int = request.config.getoption("--shards")
    return number


@pytest.fixture(scope="session")
def engine_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A real Elasticsearch: the one of ELASTICSEARCH_URL, else a container, else the embedded node."""
    if given := os.environ.get("ELASTICSEARCH_URL"):
        yield given
    elif _docker_runs():
        yield from _container()
    else:
        yield request.getfixturevalue("embedded_url")


@pytest.fixture(scope="session")
def embedded_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The embedded node, which has a folder for snapshots."""
    if shared := getattr(request.config, "workerinput", {}).get(_NODE_URL):
        yield shared
        return
    with EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        yield cluster.url


def _docker_runs() -> bool:
    # An engine that is named has to work; podman's has no `docker` command.
    if "DOCKER_HOST" in os.environ:
        return True
    docker = shutil.which("docker")
    return docker is not None and subprocess.run([docker, "info"], capture_output=True, check=False).returncode == 0  # noqa: S603 - a fixed command


def _container() -> Iterator[str]:
    from testcontainers.community.elasticsearch import ElasticSearchContainer  # noqa: PLC0415 - needs an engine

    image = f"elasticsearch:{VERSION}"
    with ElasticSearchContainer(image, mem_limit="2g") as container:
        yield f"http://{container.get_container_host_ip()}:{container.get_exposed_port(container.port)}"


@pytest.fixture
def loop_log(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return what event loops have logged since the test began, such as errors of tasks that nobody awaits."""
    gc.collect()  # tasks that other tests have left
    caplog.clear()

    def read() -> list[str]:
        gc.collect()
        return logged(caplog, "asyncio")

    return read


@pytest.fixture
def prefix() -> str:
    """A prefix that no other test's indices have."""
    return _new_prefix()


def _new_prefix() -> str:
    return f"t{secrets.token_hex(4)}-"


@pytest.fixture
def connection(engine_url: str, prefix: str) -> ConnectionSettings:
    """Connection settings of a test's own installation."""
    return ConnectionSettings(url=(engine_url,), prefix=prefix)


@pytest.fixture
async def client(connection: ConnectionSettings) -> AsyncIterator[AsyncElasticsearch]:
    """A client; the indices of the test are removed afterwards."""
    async with connect(connection, connections=4, timeout=30) as opened:
        yield opened
        await remove_indices(opened, connection.prefix)


@pytest.fixture
async def reader(connection: ConnectionSettings) -> AsyncIterator[AsyncElasticsearch]:
    """The client of a service."""
    async with reading_client(connection, 4, 30) as opened:
        yield opened


@asynccontextmanager
async def open_installation(engine_url: str) -> AsyncIterator[tuple[AsyncElasticsearch, ConnectionSettings]]:
    """Yield a client and the settings of an installation for several tests; remove its indices afterwards."""
    connection = ConnectionSettings(url=(engine_url,), prefix=_new_prefix())
    async with connect(connection, connections=4, timeout=120) as opened:
        yield opened, connection
        await remove_indices(opened, connection.prefix)


async def remove_indices(client: AsyncElasticsearch, prefix: str) -> None:
    """Delete by exact names what carries a prefix."""
    names = list(await client.indices.get(index=f"{prefix}*", expand_wildcards="all"))
    # All names are in the URL, which may have 4,096 bytes.
    for at in range(0, len(names), _DELETED_TOGETHER):
        await client.indices.delete(index=names[at : at + _DELETED_TOGETHER])
