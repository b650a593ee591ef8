"""The Maven repositories to download from, and the certificates to verify them with."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from jgo.maven import MavenContext
    from jgo.maven._resolver import ProgressCallback

REPOSITORY_SETTING: Final = "BROKERAGE_MAVEN_REPOSITORY"
_BUNDLES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_TIMEOUT_SECONDS: Final = 30  # without a byte


def maven_context(folder: Path, progress: "ProgressCallback | None" = None) -> "MavenContext":
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
