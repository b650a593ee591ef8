"""The images that the tests make: a base with Python, the product's, and the stand-in for Elasticsearch."""

import configparser
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from embedded import VERSION
from embedded.folders import prepare_home
from tests.image.podman import Podman

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/brokerage:test"
# By the name that compose.yaml and the tests' engine ask for, so that nothing is fetched.
NODE_IMAGE = f"docker.io/library/elasticsearch:{VERSION}"
BASE_VARIABLE = "IMAGE_BASE"
CANARY = "canary-of-the-build-secrets"
# The release of Debian with the Python of the Dockerfile, and what the official image has besides.
_RELEASE = "trixie"
_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
_BASE = f"""FROM localhost/{_RELEASE}
RUN ln -sf python3 /usr/bin/python && rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
"""


@dataclass(frozen=True)
class ImageBuilder:
    """Builds images with podman; `secrets` is a private folder for what only the build may see."""

    podman: Podman
    secrets: Path

    def base(self) -> str:
        """Return the name of the base image: that of IMAGE_BASE, or else one made of Debian's packages."""
        if given := os.environ.get(BASE_VARIABLE):
            return given
        self.podman.run("import", str(debian_archive()), f"localhost/{_RELEASE}")
        folder = self.secrets / "base"
        folder.mkdir()
        (folder / "Containerfile").write_text(_BASE, encoding="utf-8")
        self.build("localhost/python", folder, f"--file={folder / 'Containerfile'}")
        return "localhost/python"

    def product(self, base: str, context: Path = ROOT) -> float:
        """Build the image from the Dockerfile as it is; return the seconds that it took."""
        started = time.monotonic()
        self.build(IMAGE, context, f"--build-arg=BASE={base}", *self._given())
        return time.monotonic() - started

    def node(self, base: str, context: Path) -> None:
        """Build the stand-in for the image of Elasticsearch, with an empty folder as build context."""
        for name in ("embedded", "tests/image", "locks"):
            shutil.copytree(ROOT / name, context / name, ignore=shutil.ignore_patterns("__pycache__"))
        home = prepare_home(lambda _: None).root
        for name in ("lib", "modules"):
            shutil.copytree(home / name, context / "elasticsearch" / home.parent.name / home.name / name)
        self.build(
            NODE_IMAGE,
            context,
            f"--file={context / 'tests/image/node.Containerfile'}",
            f"--build-arg=BASE={base}",
            *self._given(),
        )

    def build(self, name: str, context: Path, *options: str) -> None:
        """Build an image from a folder; options are those of `podman build`."""
        # Only the format of Docker has health checks.
        how = ["--isolation=chroot", "--network=host", "--format=docker", f"--tag={name}"]
        self.podman.run("build", *how, *options, str(context))

    def _given(self) -> list[str]:
        """Return the build secrets: how this machine reaches its package index."""
        settings = configparser.ConfigParser(interpolation=None)
        settings["global"] = {name: value for name in _PIP if (value := os.environ.get(f"PIP_{name.upper()}"))}
        secrets = [f"--secret=id=pip,src={self.secrets / 'pip.conf'}"]
        if authorities := os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE"):
            settings["global"]["cert"] = "/run/ca.pem"
            secrets.append(f"--secret=id=ca,src={authorities}")
        with (self.secrets / "pip.conf").open("w", encoding="utf-8") as file:
            file.write(f"# {CANARY}\n")
            settings.write(file)
        return secrets


_PIP = ("index_url", "extra_index_url", "trusted_host", "default_timeout", "proxy")


def debian_archive() -> Path:
    """Return the root folder of the base image as a tar archive; it is made once and kept in `build`."""
    archive = ROOT / "build" / "image" / f"{_RELEASE}.tar"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        draft = archive.with_suffix(".draft.tar")
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}", _RELEASE, str(draft)]
        subprocess.run(command, check=True)  # noqa: S603 - a fixed command
        draft.replace(archive)
    return archive
