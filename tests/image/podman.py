"""Podman as the tests use it: storage, networks and settings of its own, all removed afterwards."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAMS = ("podman", "runc", "conmon", "netavark", "aardvark-dns", "iptables", "mmdebstrap")
_PATIENCE_SECONDS = 300
_LOOK_SECONDS = 0.5
LIMIT = 4096
_NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "true")
_FOLDERS = "/usr/sbin:/usr/lib/podman:/usr/libexec/podman"


class PodmanFailed(Exception):
    """A command of podman failed; the message holds its output."""


def missing_programs() -> list[str]:
    """Return the programs that the tests need and this machine lacks."""
    path = f"{os.environ.get('PATH', '')}:{_FOLDERS}"
    return [program for program in PROGRAMS if shutil.which(program, path=path) is None]


def obstacle() -> str | None:
    """Return why images cannot be built and run on this machine; None if they can."""
    if missing := missing_programs():
        return f"{', '.join(missing)} missing; `make podman` installs them on Debian, as root"
    if os.geteuid() != 0:
        return "it needs root"
    if subprocess.run(_NAMESPACES, capture_output=True, check=False).returncode != 0:  # noqa: S603 - a fixed command
        return "this machine does not permit new namespaces"
    return None


@dataclass(frozen=True)
class Podman:
    """Podman with everything it stores in one folder."""

    folder: Path
    _environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def within(cls, folder: Path) -> Podman:
        """Set up podman in an empty folder. Limits are those of this process, which it may have no right to raise."""
        listed = json.dumps([f"{name}={clipped(name, LIMIT)}" for name in ("nofile", "nproc")])
        settings = folder / "containers.conf"
        settings.write_text(f"[containers]\ndefault_ulimits={listed}\n", encoding="utf-8")
        return cls(folder, {"CONTAINERS_CONF": str(settings)})

    @property
    def command(self) -> list[str]:
        """The beginning of each command. Only runc accepts the cgroups of every machine."""
        places = {name: str(self.folder / name) for name in ("root", "runroot", "network-config-dir", "tmpdir")}
        options = {**places, "runtime": "runc", "cgroup-manager": "cgroupfs", "events-backend": "file"}
        return ["podman", "--log-level=error", *(f"--{name}={value}" for name, value in options.items())]

    @property
    def environment(self) -> dict[str, str]:
        """The variables of each command."""
        return {**os.environ, **self._environment}

    def run(self, *arguments: str) -> str:
        """Run a command and return what it prints; raise PodmanFailed if it fails."""
        done = self.attempt(*arguments)
        if done.returncode != 0:
            raise PodmanFailed(f"podman {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def attempt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command and return its exit code and output."""
        command = [*self.command, *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)  # noqa: S603

    @contextmanager
    def started(self, *arguments: str) -> Iterator[Container]:
        """Start a container in the background; remove it, and volumes without a name, afterwards."""
        container = Container(self, self.run("run", "--detach", *arguments).strip())
        try:
            yield container
        finally:
            self.run("rm", "--force", "--volumes", container.name)

    def remove_all(self) -> None:
        """Remove containers, images, networks and volumes."""
        self.run("system", "reset", "--force")


@dataclass(frozen=True)
class Container:
    """A container that has been started."""

    podman: Podman
    name: str

    def inspect(self, what: str) -> Any:
        """Return a member of what `podman inspect` prints, such as `.State.ExitCode`."""
        return json.loads(self.podman.run("inspect", self.name, "--format", f"{{{{json {what}}}}}"))

    def execute(self, *command: str) -> str:
        """Run a command inside it and return what it prints."""
        return self.podman.run("exec", self.name, *command)

    @property
    def is_healthy(self) -> bool:
        """Whether its health check passes now. Usually systemd runs it, which a machine may lack."""
        return self.podman.attempt("healthcheck", "run", self.name).returncode == 0

    def wait_healthy(self) -> None:
        """Wait until its health check passes; raise PodmanFailed if it has ended."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self.is_healthy:
            if not self.inspect(".State.Running") or time.monotonic() > deadline:
                raise PodmanFailed(f"it did not become healthy: {self.inspect('.State')}\n{self.logs}")
            time.sleep(_LOOK_SECONDS)

    def wait_ended(self) -> int:
        """Wait until it ends and return its exit code."""
        return int(self.podman.run("wait", self.name))

    def stop(self, seconds: int) -> int:
        """Send the image's stop signal, after so many seconds SIGKILL; return the exit code, 137 for SIGKILL."""
        self.podman.run("stop", "--time", str(seconds), self.name)
        return int(self.inspect(".State.ExitCode"))

    @property
    def logs(self) -> str:
        """What it has printed."""
        done = self.podman.attempt("logs", self.name)
        return done.stdout + done.stderr

    @property
    def address(self) -> str:
        """Its address in its network."""
        (network,) = self.inspect(".NetworkSettings.Networks").values()
        return str(network["IPAddress"])


def clipped(name: str, wanted: int) -> str:
    """Return `soft:hard` of a limit: what is wanted, -1 for the most, but no more than this process may have."""
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
    bound = hard if wanted == -1 else wanted if hard == -1 else min(wanted, hard)
    return f"{bound}:{bound}"
