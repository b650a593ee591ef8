"""A node as a process: launch parameters (settings, Java flags, class path), signals, exit and its reason."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import msgspec

from embedded.folders import ClassDataArchive, ElasticsearchHome
from embedded.node_options import HEAP_SETTING, HOST, EmbeddedNodeError, NodeOptions

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")


class NodeLaunch(msgspec.Struct, frozen=True):
    """The parameters of a node process, passed as JSON in its first argument."""

    name: str
    class_path: list[str]
    flags: list[str]
    settings: dict[str, str]
    archive_draft: str | None
    archive: str | None
    ephemeral: str | None  # folder to remove if the parent process has died


@dataclass(frozen=True, slots=True)
class NodeAddress:
    name: str
    http: int
    transport: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.http}"


def node_settings(home: ElasticsearchHome, data: Path, address: NodeAddress) -> dict[str, str]:
    return {
        "cluster.name": "brokerage",
        "node.name": address.name,
        "path.home": str(home.root),
        "path.data": str(data / address.name),
        "path.logs": str(data / "logs"),
        "path.repo": str(data / "snapshots"),
        "network.host": HOST,
        "http.type": "netty4",
        "http.port": str(address.http),
        "transport.type": "netty4",
        "transport.port": str(address.transport),
        # Indices are created with their mappings; a mistyped name must fail, not create an index.
        "action.auto_create_index": "false",
        # The defaults are percentages, which would make indices on a large, fairly full disk read-only.
        "cluster.routing.allocation.disk.watermark.low": "1gb",
        "cluster.routing.allocation.disk.watermark.high": "500mb",
        "cluster.routing.allocation.disk.watermark.flood_stage": "250mb",
    }


def discovery_settings(addresses: list[NodeAddress], *, formed: bool) -> dict[str, str]:
    """How the nodes find each other; initial master nodes are set only until the cluster has `formed`."""
    if len(addresses) == 1:
        return {"discovery.type": "single-node"}
    seeds = ",".join(f"{HOST}:{address.transport}" for address in addresses)
    masters = ",".join(address.name for address in addresses)
    return {"discovery.seed_hosts": seeds} | ({} if formed else {"cluster.initial_master_nodes": masters})


def java_flags(options: NodeOptions, data: Path) -> list[str]:
    """The flags of the Java runtime, modelled on those of the launcher of Elasticsearch."""
    return [
        f"-Xms{options.heap_mb}m",
        f"-Xmx{options.heap_mb}m",
        f"-XX:MaxDirectMemorySize={options.heap_mb // 2}m",
        "-XX:+UseG1GC",  # on small machines Java would choose a collector that is not used in production
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        f"-XX:ErrorFile={data}/logs/java-error-%p.log",
        "-Xrs",  # leaves the signals to this program
        "--enable-native-access=ALL-UNNAMED",
        "--sun-misc-unsafe-memory-access=allow",
        f"-Djava.io.tmpdir={data / 'tmp'}",
        "-Djava.awt.headless=true",
        "-Djna.nosys=true",
        "-Dio.netty.noUnsafe=true",
        "-Dio.netty.noKeySetOptimization=true",
        "-Dio.netty.recycler.maxCapacityPerThread=0",
        "-Dlog4j.shutdownHookEnabled=false",
        "-Dlog4j2.disable.jmx=true",
        f"-Dlog4j2.configurationFile={_LOGGING}",
    ]


def build_launch(
    settings: dict[str, str], flags: list[str], archive: ClassDataArchive | None, ephemeral: Path | None
) -> NodeLaunch:
    """The parameters of one node; `archive` is None for a node that must not use shared class data."""
    extra = archive.flags() if archive else []
    records = archive is not None and archive.is_recording
    return NodeLaunch(
        name=settings["node.name"],
        class_path=ElasticsearchHome(Path(settings["path.home"])).class_path,
        flags=[*flags, *extra],
        settings=settings,
        archive_draft=str(archive.draft) if archive and records else None,
        archive=str(archive.file) if archive and records else None,
        ephemeral=str(ephemeral) if ephemeral else None,
    )


_TAIL: Final = 200_000  # bytes at the end of the log that are searched for known failures

# Log messages of Elasticsearch or Java, and their meaning; the first match is reported.
_KNOWN_FAILURES: Final = (
    (r"BindHttpException|BindTransportException|Address already in use", "its port is in use: choose another --port"),
    (
        r"Could not reserve enough space|insufficient memory|Cannot allocate memory|OutOfMemoryError",
        f"there is too little memory: lower {HEAP_SETTING} or close other programs",
    ),
    (
        r"failed to obtain node lock|LockObtainFailed",
        "another node uses the same data: stop it or choose another data folder",
    ),
    (r"No space left on device", "the disk is full: free space or choose another data folder"),
    (
        r"CorruptStateException|CorruptIndexException",
        "its data is damaged: choose another data folder or remove that folder",
    ),
    (r"unknown setting \[(?P<name>[^\]]+)\]", "Elasticsearch has no setting {name}: correct the name"),
)
_PORT_FAILURE: Final = re.compile(_KNOWN_FAILURES[0][0])


class NodeProcess:
    """The process of a node, which ends when this program ends."""

    def __init__(self, launch: NodeLaunch, address: NodeAddress, log: Path, keep_open: int) -> None:
        self.address = address
        self.name = address.name
        self.url = address.url
        self.log = log
        self._started_with = (launch, address, log, keep_open)
        self._draft = launch.archive_draft
        _rotate(log)
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "embedded.node_main", msgspec.json.encode(launch).decode()],
                stdin=subprocess.PIPE,  # never written to: end of file means that this program has ended
                stdout=output,
                stderr=output,
                cwd=log.parent,
                env=_environment(),
                pass_fds=[keep_open],
                umask=0o077,  # its data and logs hold records
                start_new_session=True,  # Ctrl-C reaches this program only, which stops its nodes gracefully
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative signal number if a signal ended it."""
        return self._process.poll()

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def request_stop(self) -> None:
        """Request a graceful shutdown; a stopped process is continued for it."""
        self.send_signal(signal.SIGTERM)
        self.send_signal(signal.SIGCONT)

    def finish(self, timeout: float) -> None:
        """Wait up to `timeout` seconds, then kill the process."""
        try:
            self._process.wait(max(timeout, 0))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._draft is not None:
            Path(self._draft).unlink(missing_ok=True)

    def restarted(self) -> Self:
        """The same node in a new process, on the same data and ports; raises RuntimeError while this one runs."""
        if self.exit_code is None:
            raise RuntimeError(f"{self.name} still runs")
        self.finish(0)
        return type(self)(*self._started_with)

    @property
    def is_port_taken(self) -> bool:
        return _PORT_FAILURE.search(self._log_text()) is not None

    def failure(self) -> EmbeddedNodeError:
        reason = next(filter(None, map(self._explain, _KNOWN_FAILURES)), f"it ended {self.describe_end()}")
        return EmbeddedNodeError(f"{self.name} cannot run, {reason} (details: {self.log})", self.log)

    def describe_end(self) -> str:
        """How it ended, as a phrase that follows "it ended"."""
        code = self.exit_code
        if code is not None and code < 0:
            return f"by {signal.Signals(-code).name}"
        return f"with exit code {code}"

    def _explain(self, failure: tuple[str, str]) -> str | None:
        pattern, meaning = failure
        found = re.search(pattern, self._log_text())
        return meaning.format(**found.groupdict()) if found else None

    def _log_text(self) -> str:
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _TAIL))
            return file.read().decode(errors="replace")


def _rotate(log: Path) -> None:
    if log.exists():
        log.replace(log.with_suffix(".previous.log"))


def _environment() -> dict[str, str]:
    packages = str(Path(__file__).resolve().parents[1])
    inherited = os.environ.get("PYTHONPATH")
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [packages, inherited]))}
