"""Concurrent downloads of pinned jars, each moved into place once its SHA-256 matches the lock."""

import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from embedded.artifacts import VERSION, Artifact, sha256_of
from embedded.errors import EmbeddedNodeError
from embedded.maven_repository import REPOSITORY_SETTING, maven_context, repositories, use_system_certificates
from embedded.start_progress import ProgressCallback, StartProgress

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
        """Return the progress callback of the download library."""
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
