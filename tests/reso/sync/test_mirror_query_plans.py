"""How SQLite looks things up in a mirror: a plan that reads all of an entity makes a first load take hours."""

import sqlite3
from pathlib import Path
from typing import Any

from indexer.reso.mirror import Mirror
from mappings.data_dictionary import load_dictionary


def test_no_look_up_reads_a_whole_entity(tmp_path: Path) -> None:
    """Every query that is made for each record is answered from an index by all that it names."""
    mirror = Mirror(tmp_path / "mirror.sqlite", load_dictionary())
    asked: list[str] = []
    mirror.connection.set_trace_callback(asked.append)
    with mirror.transaction():
        mirror.put("Media", "m", "", {"MediaKey": "m", "ResourceName": "Property", "ResourceRecordKey": "p"})
        mirror.remove("Media", "m")
    mirror.record("Property", "p")
    mirror.parts("Media", "Property", "p")
    mirror.connection.set_trace_callback(None)
    plans = {query: plan(mirror.connection, query) for query in asked if query.startswith(("SELECT", "DELETE"))}
    mirror.close()
    assert len(plans) >= 5
    assert {query: steps for query, steps in plans.items() if not all(map(is_narrow, steps))} == {}


def plan(base: sqlite3.Connection, query: str) -> list[str]:
    rows: list[tuple[Any, ...]] = base.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
    return [str(row[-1]) for row in rows]


def is_narrow(step: str) -> bool:
    """Whether a step is a search by more than the name of an entity, or by a name alone."""
    return step.startswith("SEARCH") and (step.count("=?") > 1 or "(name=?)" in step)
