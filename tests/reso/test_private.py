"""Private fields of a source are neither requested nor kept."""

from pathlib import Path

import orjson

from mappings import RESOURCES
from tests.indexer.conftest import Bench
from tests.reso.replication_bench import ReplicationBench
from tests.reso.server.running import serve_in_loop
from tests.reso.server.schema import PRIVATE
from tests.reso.server.server_settings import ServerSettings
from tests.reso.sync.open_mirror import DICTIONARY, ON_SALE, put, small_world
from tests.reso.world.generated_world import CANARY


def _files_without(text: str, folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if text.encode() in path.read_bytes()]
    return " ".join(path.name for path in files)


async def test_private_fields_are_neither_requested_nor_kept(bench: Bench, tmp_path: Path) -> None:
    """Dead letters included: their records hold what was requested and no more."""
    async with serve_in_loop(ServerSettings(late_share=0.2), small_world(properties=80, hostile=0.5)) as server:
        into = ReplicationBench(bench, server, tmp_path)
        long = ON_SALE | dict.fromkeys(PRIVATE["Property"], CANARY)
        put(server, "Property", "k" * 200, **long)
        done = await into.round()
        for entity in ("Property", "Member"):
            for key in server.keys(entity)[:5]:
                server.patch(entity, key, **dict.fromkeys(PRIVATE[entity], f"{CANARY} again"))
        await into.round(settings={"reconcile_hours": 0.0})
        private = {name for names in PRIVATE.values() for name in names}
        records = [visit for visit in server.ledger.visits if visit.resource in DICTIONARY.entities]
        assert records
        assert all("$select=" in visit.describe for visit in records)
        assert not [visit.describe for visit in records if any(name in visit.describe for name in private)]
        assert not private & {name for entity in PRIVATE for name in server.ledger.fields(entity)}
        assert bench.letters()
        assert CANARY not in str(bench.letters()) + str(done)
        for resource in RESOURCES:
            assert CANARY not in str(await bench.served(resource))
        assert "acme-" in _files_without(CANARY, tmp_path)
        written = orjson.dumps((await bench.client.search(index=bench.connection.control_index, size=100)).body)
        assert CANARY.encode() not in written
