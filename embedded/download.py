"""Downloads pinned jars: several at once, each under a private name until its SHA-256 agrees with the lock."""

import logging
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from embedded.artifacts import VERSION, Artifact, sha256_of
from embedded.errors import EmbeddedNodeError
from embedded.progress import Progress, ProgressCallback
from embedded.repository import REPOSITORY_SETTING, maven_context, repositories, system_trust

if TYPE_CHECKING:
    from collections.abc import Callable

_WORKERS: Final = 6
_ATTEMPTS: Final = 2
_TICK: Final = 0.1  # seconds between two reports

logging.getLogger("jgo").addHandler(logging.NullHandler())  # what goes wrong is told once, by the error raised here


class Meter:
    """Counts bytes as they arrive from several threads; a lost update costs only the bar's precision."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0

    @contextmanager
    def file(self, _name: str, _size: int) -> Iterator["Callable[[int], None]"]:
        """The shape in which the download library reports."""
        yield self._add

    def _add(self, count: int) -> None:
        self.done = min(self.total, self.done + count)


def download(wanted: Mapping[Path, Artifact], report: ProgressCallback) -> None:
    """Put each artifact at its path; `report` runs in the calling thread.

    Raises EmbeddedNodeError when a repository cannot be reached, lacks a jar, or serves another than the pinned one.
    """
    meter = Meter(sum(artifact.size for artifact in wanted.values()))
    folder = next(iter(wanted)).parent
    with (
        tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as scratch,
        system_trust(),
        ThreadPoolExecutor(_WORKERS) as pool,
    ):
        jobs = [pool.submit(_fetch, artifact, path, Path(scratch), meter) for path, artifact in wanted.items()]
        try:
            _follow(jobs, meter, report)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _follow(jobs: list[Future[None]], meter: Meter, report: ProgressCallback) -> None:
    pending = set(jobs)
    while pending:
        done, pending = wait(pending, timeout=_TICK, return_when=FIRST_EXCEPTION)
        report(Progress(f"downloading Elasticsearch {VERSION}", meter.done, meter.total))
        for job in done:
            job.result()


def _fetch(artifact: Artifact, path: Path, scratch: Path, meter: Meter) -> None:
    received = ""
    for attempt in range(_ATTEMPTS):
        file = _receive(artifact, scratch / str(attempt), meter)
        if artifact.describes(file):
            file.replace(path)
            return
        received = sha256_of(file)
    raise EmbeddedNodeError(
        f"{artifact.file_name} from {_source()} has the SHA-256 {received[:12]}… and the lock pins "
        f"{artifact.sha256[:12]}…, so it is refused: name a repository with the original in {REPOSITORY_SETTING}"
    )


def _receive(artifact: Artifact, folder: Path, meter: Meter) -> Path:
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

    other = f"name another Maven repository in {REPOSITORY_SETTING}"
    match error:
        case requests.exceptions.SSLError():
            return "its certificate is not trusted, name the file of your certificates in REQUESTS_CA_BUNDLE"
        case requests.exceptions.Timeout():
            return f"it does not answer, check the network or {other}"
        case requests.exceptions.RequestException():
            return f"the connection fails, check the network and proxy settings or {other}"
        case OSError():
            return f"{error.strerror}, make room or name another cache folder in XDG_CACHE_HOME"
        case _:
            return f"it does not have that file, {other}"
