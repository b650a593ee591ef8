"""The pinned jars of Elasticsearch: read from the committed lock, and downloaded from Maven repositories.

The lock has coordinates, sizes and SHA-256 sums. Downloads are concurrent; each jar is moved into place once its
SHA-256 matches.
"""

import hashlib
import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import msgspec

from embedded.node_options import EmbeddedNodeError, ProgressCallback, StartProgress

if TYPE_CHECKING:
    from jgo.maven import MavenContext
    from jgo.maven._resolver import ProgressCallback as DownloadProgress


LOCK_FILE: Final = Path(__file__).with_name("artifacts.lock.json")


class Artifact(msgspec.Struct, frozen=True):
    """One jar: its coordinate `group:name:version`, its SHA-256 in hex and its size in bytes."""

    coordinate: str
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        _group, name, version = self.coordinate.split(":")
        return f"{name}-{version}.jar"

    def matches(self, file: Path) -> bool:
        if not file.is_file() or file.stat().st_size != self.size:
            return False
        return sha256_of(file) == self.sha256


class ArtifactLock(msgspec.Struct, frozen=True):
    version: str
    artifacts: tuple[Artifact, ...]

    @property
    def size(self) -> int:
        """Total size of all jars in bytes."""
        return sum(artifact.size for artifact in self.artifacts)

    @property
    def digest(self) -> str:
        sums = "".join(artifact.sha256 for artifact in self.artifacts)
        return hashlib.sha256(sums.encode()).hexdigest()[:12]


def sha256_of(file: Path) -> str:
    """The file's SHA-256 in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_lock(file: Path = LOCK_FILE) -> ArtifactLock:
    """The committed lock; `python -m embedded.lock` writes it."""
    return msgspec.json.decode(file.read_bytes(), type=ArtifactLock)


ARTIFACT_LOCK: Final = _read_lock()
VERSION: Final = ARTIFACT_LOCK.version


REPOSITORY_SETTING: Final = "BROKERAGE_MAVEN_REPOSITORY"
_BUNDLES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_TIMEOUT_SECONDS: Final = 30  # without a byte


def maven_context(folder: Path, progress: "DownloadProgress | None" = None) -> "MavenContext":
    """A Maven client that downloads into `folder` and uses no other local repository."""
    from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415 - an optional dependency

    resolver = PythonResolver(progress_callback=progress)
    return MavenContext(resolver, repo_cache=folder, remote_repos=repositories(), timeout=_TIMEOUT_SECONDS)


def repositories() -> dict[str, str]:
    """Repository addresses by name, in order of preference: the setting alone, or those of jgo and Maven."""
    from jgo.config import GlobalSettings  # noqa: PLC0415 - an optional dependency
    from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415

    if url := os.environ.get(REPOSITORY_SETTING):
        return {"setting": url.rstrip("/")}
    return {**GlobalSettings.load().repositories, "central": _mirror_of_central() or MAVEN_CENTRAL_URL}


def _mirror_of_central() -> str | None:
    files = [Path.home() / ".m2/settings.xml", Path("/etc/maven/settings.xml")]
    urls = (_mirror_in(file) for file in files if file.is_file())
    return next(filter(None, urls), None)


def _mirror_in(settings: Path) -> str | None:
    try:
        root = ET.parse(settings).getroot()  # noqa: S314 - the machine owner's own file
    except ET.ParseError:
        return None
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        scope = mirror.findtext("{*}mirrorOf", "").replace(" ", "").split(",")
        if {"central", "*", "external:*"}.intersection(scope) and "!central" not in scope:
            return mirror.findtext("{*}url", "").rstrip("/") or None
    return None


@contextmanager
def use_system_certificates() -> Iterator[None]:
    """Verify servers with the certificates of this machine, as pip does, unless a bundle is configured.

    The download library uses only its own bundle, which lacks the certificate of a corporate proxy.
    """
    paths = ssl.get_default_verify_paths()
    folder = Path(paths.capath or "")
    bundle = paths.cafile or (paths.capath if paths.capath and any(folder.iterdir()) else None)
    if bundle is None or any(name in os.environ for name in _BUNDLES):
        yield
        return
    os.environ[_BUNDLES[0]] = bundle
    try:
        yield
    finally:
        del os.environ[_BUNDLES[0]]


_WORKERS: Final = 6
_ATTEMPTS: Final = 2
_REPORT_SECONDS: Final = 0.1  # between progress reports

logging.getLogger("jgo").addHandler(logging.NullHandler())  # errors are reported once, by the exception raised here


class DownloadMeter:
    """Counts bytes from several threads; a lost update only makes the progress bar less exact."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0

    @contextmanager
    def file(self, _name: str, _size: int) -> Iterator["Callable[[int], None]"]:
        yield self._add

    def _add(self, count: int) -> None:
        self.done = min(self.total, self.done + count)


def download_artifacts(wanted: Mapping[Path, Artifact], report: ProgressCallback) -> None:
    """Download each artifact to its path; `report` runs in the calling thread.

    Raises EmbeddedNodeError if a repository is unreachable, lacks a jar, or serves one with another checksum.
    """
    meter = DownloadMeter(sum(artifact.size for artifact in wanted.values()))
    folder = next(iter(wanted)).parent
    with (
        tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as scratch,
        use_system_certificates(),
        ThreadPoolExecutor(_WORKERS) as pool,
    ):
        jobs = [pool.submit(_fetch, artifact, path, Path(scratch), meter) for path, artifact in wanted.items()]
        try:
            _report_progress(jobs, meter, report)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _report_progress(jobs: list[Future[None]], meter: DownloadMeter, report: ProgressCallback) -> None:
    pending = set(jobs)
    while pending:
        done, pending = wait(pending, timeout=_REPORT_SECONDS, return_when=FIRST_EXCEPTION)
        report(StartProgress(f"downloading Elasticsearch {VERSION}", meter.done, meter.total))
        for job in done:
            job.result()


def _fetch(artifact: Artifact, path: Path, scratch: Path, meter: DownloadMeter) -> None:
    received = ""
    for attempt in range(_ATTEMPTS):
        file = _receive(artifact, scratch / str(attempt), meter)
        if artifact.matches(file):
            file.replace(path)
            return
        received = sha256_of(file)
    raise EmbeddedNodeError(
        f"{artifact.file_name} from {_source()} has the SHA-256 {received[:12]}… but the lock pins "
        f"{artifact.sha256[:12]}…, so it is rejected: set {REPOSITORY_SETTING} to a repository with the original"
    )


def _receive(artifact: Artifact, folder: Path, meter: DownloadMeter) -> Path:
    context = maven_context(folder, meter.file)
    group, name, version = artifact.coordinate.split(":")
    try:
        return Path(context.project(group, name).at_version(version).artifact().resolve())
    except Exception as error:
        raise EmbeddedNodeError(f"cannot download {artifact.file_name} from {_source()}: {_reason(error)}") from error


def _source() -> str:
    return " or ".join(repositories().values())


def _reason(error: Exception) -> str:
    import requests  # noqa: PLC0415 - comes with the optional download library

    other = f"set {REPOSITORY_SETTING} to another Maven repository"
    match error:
        case requests.exceptions.SSLError():
            return "its certificate is not trusted, set REQUESTS_CA_BUNDLE to the file of your CA certificates"
        case requests.exceptions.Timeout():
            return f"it does not respond, check the network or {other}"
        case requests.exceptions.RequestException():
            return f"the connection fails, check the network and proxy settings or {other}"
        case OSError():
            return f"{error.strerror}, free disk space or set XDG_CACHE_HOME to another cache folder"
        case _:
            return f"it does not have that file, {other}"
