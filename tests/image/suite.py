"""`python -m tests.image.suite [ARGUMENTS]`: the standard tests with the Python of the image, in a container.

Tests what is committed. Arguments are those of pytest, such as `tests/mappings`. Ends with the exit code of pytest.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from embedded.folders import cache_folder
from tests.image.image_build import ROOT, ImageBuilder
from tests.image.podman import Podman, obstacle

_IMAGE = "localhost/suite"
# For what tests write: the nodes of Elasticsearch spent half of their processor time on the disk of the container.
_MEMORY = ("--shm-size=1g", "--tmpfs=/tmp:exec,size=8g")
_TARGETS = "develop promtool tests/clients/node_modules"
# How this machine reaches its package indices.
_PASSED_ON = ("PIP_", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "npm_config_", "NPM_CONFIG_")


def main(arguments: list[str]) -> int:
    """Build the image, run pytest in it, and remove both."""
    if reason := obstacle():
        sys.exit(f"The tests cannot run in a container: {reason}.")
    folder = Path(tempfile.mkdtemp(prefix="brokerage-suite-"))
    podman = Podman.within(folder)
    try:
        _build(podman)
        checkout = folder / "checkout"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(checkout)], check=True)  # noqa: S603, S607
        return _run(podman, checkout, arguments)
    finally:
        podman.remove_all()
        shutil.rmtree(folder)


def _build(podman: Podman) -> None:
    secrets = podman.folder / "secrets"
    secrets.mkdir(mode=0o700)
    builder = ImageBuilder(podman, secrets)
    context = podman.folder / "suite"
    context.mkdir()
    builder.build(
        _IMAGE, context, f"--file={ROOT / 'tests/image/suite.Containerfile'}", f"--build-arg=BASE={builder.base()}"
    )


def _run(podman: Podman, checkout: Path, arguments: list[str]) -> int:
    given = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
    files = [value for value in given.values() if value.startswith("/") and Path(value).exists()]
    volumes = [f"{checkout}:/checkout", f"{cache_folder()}:/root/.cache/brokerage", *(f"{at}:{at}:ro" for at in files)]
    options = [f"--env={name}={value}" for name, value in given.items()]
    options += [f"--volume={volume}" for volume in volumes]
    pytest = shlex.join(
        [".venv/bin/pytest", "--numprocesses=2", "--dist=loadfile", "--no-loadscope-reorder", *arguments]
    )
    script = f"make {_TARGETS} && .venv/bin/python --version && {pytest}"
    command = ["run", "--rm", "--network=host", *_MEMORY, *options, _IMAGE, "sh", "-c", script]
    done = subprocess.run([*podman.command, *command], env=podman.environment, check=False)  # noqa: S603
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
