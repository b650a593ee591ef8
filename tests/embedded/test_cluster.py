"""What a running node does, and that it leaves nothing behind."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from embedded import VERSION, EmbeddedCluster, EmbeddedNodeError, NodeOptions, StartProgress
from embedded.embedded_cluster import is_cluster_ready
from embedded.folders import ClusterRecord, DataFolder
from embedded.node_options import available_mb, container_memory, free_ports, require_ports
from tests.embedded.conftest import HEAP_MB, call, eventually
from tests.neighbours import steady_port
from tests.processes import is_running


def test_a_node_indexes_and_finds_a_document(cluster: EmbeddedCluster) -> None:
    call(cluster.url, "PUT", "/homes", {"mappings": {"properties": {"city": {"type": "keyword"}}}})
    call(cluster.url, "PUT", "/homes/_doc/1?refresh=true", {"city": "Kent"})
    found = call(cluster.url, "POST", "/homes/_search", {"query": {"term": {"city": "Kent"}}})
    assert [hit["_id"] for hit in found["hits"]["hits"]] == ["1"]


def test_the_node_is_the_pinned_version_and_listens_on_loopback_only(cluster: EmbeddedCluster) -> None:
    (node,) = call(cluster.url, "GET", "/_nodes/http,transport")["nodes"].values()
    addresses = [*node["http"]["bound_address"], *node["transport"]["bound_address"]]
    assert node["version"] == VERSION == "9.5.3"
    assert {address.rpartition(":")[0] for address in addresses} == {"127.0.0.1"}


def test_a_wrong_index_name_creates_no_index(cluster: EmbeddedCluster) -> None:
    with pytest.raises(AssertionError, match="no such index"):
        call(cluster.url, "PUT", "/hoems/_doc/1", {"city": "Kent"})


def test_a_snapshot_can_be_taken_below_the_data_folder(cluster: EmbeddedCluster) -> None:
    place = cluster.data / "snapshots" / "backup"
    call(cluster.url, "PUT", "/_snapshot/backup", {"type": "fs", "settings": {"location": str(place)}})
    taken = call(cluster.url, "PUT", "/_snapshot/backup/first?wait_for_completion=true")
    assert taken["snapshot"]["state"] == "SUCCESS"


def test_optional_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedded.embedded_cluster.find_spec", lambda name: None if name == "jpype" else object())
    with pytest.raises(EmbeddedNodeError, match=r"needs jpype1: pip install jpype1"):
        EmbeddedCluster(NodeOptions(ephemeral=True)).start()


def test_data_survives_a_stop_and_the_stop_frees_port_and_process(tmp_path: Path) -> None:
    port = steady_port()
    steps: list[StartProgress] = []
    options = NodeOptions(data=tmp_path, port=port, heap_mb=HEAP_MB)
    with EmbeddedCluster(options, steps.append) as running:
        (process,) = running.processes
        call(running.url, "PUT", "/homes")
        call(running.url, "PUT", "/homes/_doc/1", {"city": "Kent"})
    assert process.exit_code == 0
    assert not is_running(process.pid)
    assert require_ports(port, 1) == [port]
    assert f"starting 1 node of Elasticsearch {VERSION}" in [step.step for step in steps]
    with EmbeddedCluster(options) as again:
        assert again.url == f"http://127.0.0.1:{port}"
        assert call(again.url, "GET", "/homes/_doc/1")["_source"] == {"city": "Kent"}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where ephemeral data goes."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_setting_unknown_to_the_engine_is_named_and_only_the_log_stays(temporary: Path) -> None:
    cluster = EmbeddedCluster(NodeOptions(ephemeral=True, heap_mb=HEAP_MB, settings={"no.such.setting": "1"}))
    with pytest.raises(EmbeddedNodeError, match=r"Elasticsearch has no setting no\.such\.setting") as refused:
        cluster.start()
    (left,) = [path for path in temporary.rglob("*") if path.is_file()]
    assert refused.value.log == left
    assert f"(details: {left})" in str(refused.value)
    assert "unknown setting [no.such.setting]" in left.read_text()
    assert cluster.processes == []


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_port_in_use_is_named_before_anything_starts(taken_port: int) -> None:
    cluster = EmbeddedCluster(NodeOptions(ephemeral=True, port=taken_port, heap_mb=HEAP_MB))
    with pytest.raises(EmbeddedNodeError, match=f"port {taken_port} cannot be used .*choose another --port"):
        cluster.start()


def test_a_free_port_taken_meanwhile_is_replaced_and_ephemeral_data_goes_at_the_stop(
    taken_port: int, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers = [[taken_port, *free_ports(1)], free_ports(2)]
    monkeypatch.setattr("embedded.embedded_cluster.free_ports", lambda _count: offers.pop(0))
    with EmbeddedCluster(NodeOptions(ephemeral=True, heap_mb=HEAP_MB)) as running:
        assert urlsplit(running.url).port not in {taken_port, None}
        assert running.data.parent == temporary
    assert offers == []
    assert list(temporary.iterdir()) == []


def test_too_little_memory_is_said_with_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedded.node_options.available_mb", lambda: 1000)
    expected = "3 nodes need 2736 MB of memory at a heap of 512 MB and 1000 MB are free: lower BROKERAGE_NODE_HEAP_MB"
    with pytest.raises(EmbeddedNodeError, match=expected):
        EmbeddedCluster(NodeOptions(nodes=3, ephemeral=True, heap_mb=512)).start()


def test_a_containers_limit_counts_less_what_it_can_give_back(tmp_path: Path) -> None:
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 400\ninactive_file 200\n")
    (tmp_path / "memory.max").write_text("1000\n")
    assert container_memory(tmp_path) == 500
    (tmp_path / "memory.max").write_text("max\n")
    assert container_memory(tmp_path) is None
    assert (available_mb() or 0) > 0


def test_data_of_three_nodes_is_not_opened_by_one(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"version":"9.5.3","nodes":3}')
    with pytest.raises(EmbeddedNodeError, match="belongs to a cluster of 3 nodes: start it with --nodes 3"):
        EmbeddedCluster(NodeOptions(data=tmp_path, heap_mb=HEAP_MB)).start()


def test_data_of_a_newer_version_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"version":"9.10.0","nodes":1}')
    with pytest.raises(EmbeddedNodeError, match=r"written by Elasticsearch 9\.10\.0, this is 9\.5\.3"):
        EmbeddedCluster(NodeOptions(data=tmp_path, heap_mb=HEAP_MB)).start()


def is_ready_with(urls: list[str], nodes: int) -> bool:
    """Whether, within the time that a node may take to start, every node sees that many."""
    return eventually(lambda: all(is_cluster_ready(url, nodes) for url in urls), seconds=120)


def test_three_nodes_form_one_cluster_that_answers_again_after_one_is_killed_and_takes_it_back() -> None:
    with EmbeddedCluster(NodeOptions(nodes=3, ephemeral=True, heap_mb=HEAP_MB)) as running:
        seen = [call(url, "GET", "/_cluster/health")["number_of_nodes"] for url in running.urls]
        assert seen == [3, 3, 3]
        index = {"settings": {"number_of_replicas": 1}}
        call(running.urls[0], "PUT", "/homes?wait_for_active_shards=2", index)
        call(running.urls[0], "PUT", "/homes/_doc/1?refresh=true", {"city": "Kent"})
        master = call(running.url, "GET", "/_cat/master?format=json")[0]["node"]
        killed = next(process for process in running.processes if process.name == master)
        killed.send_signal(signal.SIGKILL)
        (other, _third) = [process for process in running.processes if process is not killed]
        health = call(other.url, "GET", "/_cluster/health?wait_for_nodes=2&wait_for_status=yellow&timeout=90s")
        assert health["number_of_nodes"] == 2
        assert call(other.url, "GET", "/homes/_doc/1")["_source"] == {"city": "Kent"}
        assert eventually(lambda: killed.describe_end() == "by SIGKILL", seconds=60)
        number = running.processes.index(killed)
        running.restart(number)
        assert is_ready_with(running.urls, nodes=3)
        assert call(killed.url, "GET", "/homes/_doc/1")["_source"] == {"city": "Kent"}
        with pytest.raises(RuntimeError, match=f"{master} still runs"):
            running.restart(number)


def test_the_record_of_a_cluster_is_written_once_it_has_formed(tmp_path: Path) -> None:
    folder = DataFolder(NodeOptions(data=tmp_path))
    assert folder.record is None
    folder.write_record(3)
    assert folder.record == ClusterRecord(VERSION, 3)
