"""The sources that two versions of the indexer load."""

from pathlib import Path

import orjson

from bench.load import write_sources


def test_the_second_source_differs_from_the_first_by_the_updates(tmp_path: Path) -> None:
    steps = write_sources(tmp_path, 45)
    load, many, one, rebuild = (
        (Path(steps[step].arguments[1]) / "listings.ndjson").read_bytes().splitlines()
        for step in ("load", "update of 1 in 20", "update of one", "rebuild")
    )
    changed = {at: new for at, (old, new) in enumerate(zip(load, rebuild, strict=True)) if old != new}
    assert (len(load), changed) == (45, {0: one[0], 20: many[0], 40: many[1]})
    for at, new in changed.items():
        before, after = orjson.loads(load[at]), orjson.loads(new)
        assert after["updated_at"] > before["updated_at"]
        assert after["record"] == before["record"] | {"ListPrice": 1_000}
