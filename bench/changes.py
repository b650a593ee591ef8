"""Changes a share of the listings by the indexer's own command, as an update of prices would."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from cluster.connection import connect
from indexer import Engine, IndexerSettings
from indexer.scan import stored
from mappings import LISTING
from sample.clock import iso

if TYPE_CHECKING:
    from cluster.connection import ConnectionSettings
    from indexer.scan import Stored

_TIMEOUT_SECONDS = 600.0


async def change(connection: ConnectionSettings, share: float) -> int:
    """Change the price of a share of all listings, scattered over all; return how many."""
    with tempfile.TemporaryDirectory(prefix="bench-update-") as folder:
        changed = await _write(connection, share, Path(folder) / "listings.ndjson")
        await _update(connection, folder)
    async with connect(connection, connections=1, timeout=_TIMEOUT_SECONDS) as client:
        await client.indices.refresh(index=connection.alias(LISTING))
    return changed


async def segments(connection: ConnectionSettings, index: str) -> int:
    """Return how many segments an index lies in."""
    async with connect(connection, connections=1, timeout=_TIMEOUT_SECONDS) as client:
        answer = await client.indices.stats(index=index, metric="segments")
        return int(answer["_all"]["primaries"]["segments"]["count"])


async def _write(connection: ConnectionSettings, share: float, target: Path) -> int:
    """Write the envelopes of a random choice of listings as they are live, with another price."""
    chance = {"random_score": {"seed": 7, "field": "_seq_no"}, "min_score": 1 - share, "boost_mode": "replace"}
    now, changed = iso(int(dt.datetime.now(dt.UTC).timestamp() * 1000)), 0
    async with connect(connection, connections=2, timeout=_TIMEOUT_SECONDS) as client:
        engine, lines = Engine(client, connection, IndexerSettings()), target.open("wb")
        with lines:
            query = {"function_score": chance}
            async for page in stored(engine, connection.alias(LISTING), query=query, order="feed_key"):
                lines.writelines(orjson.dumps(_envelope(document, now)) + b"\n" for document in page)
                changed += len(page)
    return changed


def _envelope(document: Stored, now: str) -> dict[str, Any]:
    """Return what a source would send of a stored listing whose price has changed."""
    # The TAB marks are no JSON white space to every parser; none can stand within a text.
    source = orjson.loads(document.source)
    partner = source.get("partner_clock")
    record = source["record"] | {"ListPrice": (source["record"]["ListPrice"] or 0) + 1000, "ModificationTimestamp": now}
    envelope = {
        "platform_company_id": source["company"],
        "updated_at": now,
        "property_type_id": source.get("property_type_id"),
        "shared_partner_data_updated_at": None if partner is None else iso(partner),
        "record": record,
    }
    return {name: value for name, value in envelope.items() if value is not None}


async def _update(connection: ConnectionSettings, folder: str) -> None:
    command = str(Path(sys.executable).with_name("brokerage"))
    environment = {
        **os.environ,
        "ELASTICSEARCH_URL": connection.url[0],
        "BROKERAGE_INDEX_PREFIX": connection.prefix,
        "BROKERAGE_DEAD_LETTER_DIR": f"{folder}/dead-letters",
    }
    process = await asyncio.create_subprocess_exec(
        command, "index", "update", folder, "--json", env=environment, stdout=subprocess.DEVNULL
    )
    if await process.wait():
        raise RuntimeError(f"The update ended with {process.returncode}.")
