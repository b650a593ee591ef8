"""What one node is started with: Elasticsearch settings, Java flags and class path, as one message to its process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from embedded.archive import Archive
from embedded.home import Home
from embedded.options import NodeOptions
from embedded.ports import HOST

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")


class Launch(msgspec.Struct, frozen=True):
    """All a node's process needs; sent as JSON in its first argument."""

    name: str
    class_path: list[str]
    flags: list[str]
    settings: dict[str, str]
    archive_draft: str | None
    archive: str | None
    ephemeral: str | None  # the folder to remove when no parent is left to do so


@dataclass(frozen=True, slots=True)
class Address:
    """The ports of one node."""

    name: str
    http: int
    transport: int

    @property
    def url(self) -> str:
        """Where the node answers HTTP."""
        return f"http://{HOST}:{self.http}"


def node_settings(home: Home, data: Path, address: Address) -> dict[str, str]:
    """The Elasticsearch settings that depend on this node alone."""
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
        # Indices are created with their mappings; a misspelt name must fail, not make a new index.
        "action.auto_create_index": "false",
        # The defaults are shares of the disk: they would make a large, fairly full disk of a laptop read-only.
        "cluster.routing.allocation.disk.watermark.low": "1gb",
        "cluster.routing.allocation.disk.watermark.high": "500mb",
        "cluster.routing.allocation.disk.watermark.flood_stage": "250mb",
    }


def discovery_settings(addresses: list[Address], *, formed: bool) -> dict[str, str]:
    """How the nodes find each other; the first masters are named only until the cluster has `formed`."""
    if len(addresses) == 1:
        return {"discovery.type": "single-node"}
    seeds = ",".join(f"{HOST}:{address.transport}" for address in addresses)
    masters = ",".join(address.name for address in addresses)
    return {"discovery.seed_hosts": seeds} | ({} if formed else {"cluster.initial_master_nodes": masters})


def java_flags(options: NodeOptions, data: Path) -> list[str]:
    """The flags of the Java runtime, after those that Elasticsearch's own launcher gives."""
    return [
        f"-Xms{options.heap_mb}m",
        f"-Xmx{options.heap_mb}m",
        f"-XX:MaxDirectMemorySize={options.heap_mb // 2}m",
        "-XX:+UseG1GC",  # on small machines Java would choose a collector that production does not run
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


def compose(settings: dict[str, str], flags: list[str], archive: Archive | None, ephemeral: Path | None) -> Launch:
    """The message for one node; `archive` is given to a node that may use or record shared class data."""
    extra = archive.flags() if archive else []
    records = archive is not None and archive.records
    return Launch(
        name=settings["node.name"],
        class_path=Home(Path(settings["path.home"])).class_path,
        flags=[*flags, *extra],
        settings=settings,
        archive_draft=str(archive.draft) if archive and records else None,
        archive=str(archive.file) if archive and records else None,
        ephemeral=str(ephemeral) if ephemeral else None,
    )
