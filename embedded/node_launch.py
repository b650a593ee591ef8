"""The launch parameters of a node: Elasticsearch settings, Java flags and class path."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from embedded.class_data_archive import ClassDataArchive
from embedded.elasticsearch_home import ElasticsearchHome
from embedded.node_options import NodeOptions
from embedded.ports import HOST

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
    """The name and ports of one node."""

    name: str
    http: int
    transport: int

    @property
    def url(self) -> str:
        """The HTTP address of the node."""
        return f"http://{HOST}:{self.http}"


def node_settings(home: ElasticsearchHome, data: Path, address: NodeAddress) -> dict[str, str]:
    """The Elasticsearch settings that are specific to this node."""
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
