"""The lock, the download and what happens to a jar that is not the pinned one."""

import fcntl
import gc
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from embedded import EmbeddedNodeError, StartProgress
from embedded.artifacts import ARTIFACT_LOCK, LOCK_FILE, Artifact, ArtifactLock, repositories
from embedded.folders import prepare_home
from embedded.node_options import ignore_progress
from tests.embedded.conftest import eventually

NETWORK_MODULE = "transport-netty4"
SMALL = next(artifact for artifact in ARTIFACT_LOCK.artifacts if artifact.coordinate.startswith("net.sf.jopt-simple"))
MODULE = next(artifact for artifact in ARTIFACT_LOCK.artifacts if NETWORK_MODULE in artifact.coordinate)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> str:
    """A repository address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/maven"
    monkeypatch.setenv("BROKERAGE_MAVEN_REPOSITORY", url)
    return url


def lock_of(*artifacts: Artifact) -> ArtifactLock:
    return ArtifactLock(ARTIFACT_LOCK.version, artifacts)


def test_the_committed_lock_pins_every_jar_and_names_no_place() -> None:
    coordinates = {artifact.coordinate for artifact in ARTIFACT_LOCK.artifacts}
    assert f"org.elasticsearch:elasticsearch:{ARTIFACT_LOCK.version}" in coordinates
    assert len(coordinates) == len(ARTIFACT_LOCK.artifacts) == 53
    assert all(len(artifact.sha256) == 64 and artifact.size > 0 for artifact in ARTIFACT_LOCK.artifacts)
    assert b"/" not in LOCK_FILE.read_bytes()


def test_missing_jars_are_downloaded_with_progress_in_bytes(cache: Path) -> None:
    steps: list[StartProgress] = []
    home = prepare_home(steps.append, lock_of(SMALL, MODULE))
    assert [Path(jar).name for jar in home.class_path] == [SMALL.file_name]
    assert MODULE.matches(home.root / "modules" / NETWORK_MODULE / MODULE.file_name)
    assert steps[-1] == StartProgress(
        "downloading Elasticsearch 9.5.3", SMALL.size + MODULE.size, SMALL.size + MODULE.size
    )
    assert cache in home.root.parents


@pytest.mark.usefixtures("cache")
def test_the_modules_descriptor_loses_its_java_module_name() -> None:
    home = prepare_home(ignore_progress, lock_of(MODULE))
    text = (home.root / "modules" / NETWORK_MODULE / "plugin-descriptor.properties").read_text()
    assert f"name={NETWORK_MODULE}" in text
    assert "\nmodulename=" not in text


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("damage", [b"", b"\0"], ids=["truncated", "altered"])
def test_a_broken_jar_in_the_cache_is_repaired(damage: bytes) -> None:
    jar = Path(prepare_home(ignore_progress, lock_of(SMALL)).class_path[0])
    content = jar.read_bytes()
    jar.write_bytes(content[:-1] + damage)
    prepare_home(ignore_progress, lock_of(SMALL))
    assert jar.read_bytes() == content


def test_a_jar_that_differs_from_its_pinned_sum_is_refused_and_not_kept(cache: Path) -> None:
    other = msgspec.structs.replace(SMALL, sha256="0" * 64)
    with pytest.raises(
        EmbeddedNodeError, match=rf"{SMALL.file_name} from .* but the lock pins 000000000000…, so it is rej"
    ):
        prepare_home(ignore_progress, lock_of(other))
    assert list(cache.rglob("*.jar")) == []


def test_a_broken_jar_without_a_network_is_one_sentence(cache: Path, unreachable: str) -> None:
    root = cache / "brokerage" / "elasticsearch-9.5.3" / lock_of(SMALL).digest
    (root / "lib").mkdir(parents=True)
    (root / "lib" / SMALL.file_name).write_bytes(b"broken")
    with pytest.raises(EmbeddedNodeError) as refused:
        prepare_home(ignore_progress, lock_of(SMALL))
    assert str(refused.value) == (
        f"cannot download {SMALL.file_name} from {unreachable}: the connection fails, check the network and proxy "
        "settings or set BROKERAGE_MAVEN_REPOSITORY to another Maven repository"
    )


@pytest.mark.usefixtures("cache")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_jar_that_the_repository_lacks_is_named() -> None:
    absent = msgspec.structs.replace(SMALL, coordinate="net.sf.jopt-simple:jopt-simple:0.0.0")
    with pytest.raises(EmbeddedNodeError, match=r"cannot download jopt-simple-0\.0\.0\.jar from .* not have that file"):
        prepare_home(ignore_progress, lock_of(absent))
    # The download library leaves a refused answer open: collected here, its warning reaches no other test.
    gc.collect()


@pytest.mark.usefixtures("cache")
def test_a_jar_that_the_lock_does_not_name_never_reaches_the_class_path() -> None:
    root = prepare_home(ignore_progress, lock_of(SMALL)).root
    (root / "lib" / "stranger.jar").touch()
    (root / "modules" / NETWORK_MODULE / "stranger.jar").touch()
    prepare_home(ignore_progress, lock_of(SMALL))
    assert [jar.name for jar in root.rglob("*.jar")] == [SMALL.file_name]


def test_a_second_program_waits_while_the_first_prepares_the_same_files(cache: Path) -> None:
    steps: list[StartProgress] = []
    root = cache / "brokerage" / "elasticsearch-9.5.3" / lock_of(SMALL).digest
    root.mkdir(parents=True)
    with (root / "preparing.lock").open("w") as first, ThreadPoolExecutor(1) as pool:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = pool.submit(prepare_home, steps.append, lock_of(SMALL))
        assert eventually(lambda: len(steps) > 0, seconds=60)
        assert steps == [StartProgress("waiting for another program that is preparing the same files")]
        fcntl.flock(first, fcntl.LOCK_UN)
        assert SMALL.matches(Path(second.result().class_path[0]))


def test_a_cache_folder_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(EmbeddedNodeError, match=r"cannot use the cache folder .*set XDG_CACHE_HOME to another one"):
        prepare_home(ignore_progress, lock_of(SMALL))


def test_a_mirror_in_mavens_settings_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = "<mirror><mirrorOf>*,!own</mirrorOf><url>https://maven.example/central/</url></mirror>"
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(
        f'<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors>{mirror}</mirrors></settings>'
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("BROKERAGE_MAVEN_REPOSITORY", raising=False)
    assert repositories() == {"central": "https://maven.example/central"}
