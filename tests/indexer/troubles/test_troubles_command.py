"""`brokerage index troubles`, and what an operator reads elsewhere while the list is not empty."""

import orjson

from mappings import LISTING
from tests.indexer.command.test_command import run
from tests.indexer.conftest import Bench
from tests.indexer.troubles.test_standing_list import listing, start


async def test_the_list_is_shown_filtered_and_dismissed_by_name(bench: Bench) -> None:
    await start(bench, listing("Active", 1), listing("Active", 1, "b"))
    assert (await run(bench, "troubles"))[:2] == (0, "Every record is served as its source says.\n")
    await bench.update({LISTING: [listing("Sold STC", 2), listing("Gone", 2, "b")]})

    code, text, _ = await run(bench, "troubles", "listings", COLUMNS="250")
    assert code == 1
    rows = {line.split()[2]: line for line in text.splitlines()[1:]}
    assert sorted(rows) == ["a", "b"]
    assert "as before" in rows["a"]
    assert "'Sold STC'" in rows["a"]
    assert "listings.ndjson:1" in rows["a"]

    code, text, _ = await run(bench, "troubles", "--company", "acme", "--json")
    assert (code, [entry["id"] for entry in orjson.loads(text)]) == (1, ["a", "b"])
    assert (await run(bench, "troubles", "--company", "other"))[0] == 0
    assert (await run(bench, "troubles", "agents"))[0] == 0

    _, text, _ = await run(bench, "status", COLUMNS="200")
    assert "listings: 2 records are not served as their source says, since " in text
    assert "See `brokerage index troubles listings`." in text

    assert (await run(bench, "troubles", "--dismiss", "a"))[0] == 2  # of which resource?
    code, _, complaint = await run(bench, "troubles", "listings", "--dismiss", "a", "--dismiss", "unknown")
    assert (code, complaint) == (1, "Not on the list of listings: unknown.\n")
    assert (await run(bench, "troubles", "listings", "--dismiss", "b"))[:2] == (0, "Dismissed: b.\n")
    code, text, _ = await run(bench, "troubles", COLUMNS="250")
    assert code == 0
    assert text.count("as before, dismissed") == 2
