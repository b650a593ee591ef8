"""`brokerage index troubles`, and what an operator reads elsewhere while the list is not empty."""

from pathlib import Path

import orjson

from mappings import LISTING
from tests.indexer.command.test_command import run
from tests.indexer.conftest import Bench
from tests.indexer.troubles.test_standing_list import listing, served, start


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
    dismissal = ("troubles", "listings", "--dismiss", "b", "--json", "--company")
    code, text, _ = await run(bench, *dismissal, "other")
    assert (code, orjson.loads(text)) == (1, {"dismissed": [], "missing": ["b"]})
    code, text, _ = await run(bench, *dismissal, "acme")
    assert (code, orjson.loads(text)) == (0, {"dismissed": ["b"], "missing": []})
    code, text, _ = await run(bench, "troubles", COLUMNS="250")
    assert code == 0
    assert text.count("as before, dismissed") == 2


async def test_what_is_past_its_hours_is_said_and_withdrawn_without_a_source(bench: Bench) -> None:
    await start(bench, listing("Active", 1), listing("Active", 1, "b"))
    await bench.update({LISTING: [listing("Sold STC", 2), listing("Gone", 2, "b")]})
    overdue, hours = (
        "listings: No run has withdrawn the listed records since",
        "BROKERAGE_TROUBLE_HOURS",
    )
    assert overdue not in (await run(bench, "status", COLUMNS="200"))[1]
    assert overdue in (await run(bench, "status", COLUMNS="200", **{hours: "0"}))[1]
    assert (await run(bench, "troubles", "--withdraw"))[:2] == (0, "Nothing to withdraw.\n")

    # Of a company without troubles, of one of the resources, and of all.
    for arguments in (["--company", "other"], ["agents"]):
        code, text, _ = await run(bench, "troubles", *arguments, "--withdraw", "--json", **{hours: "0"})
        assert (code, orjson.loads(text)) == (0, {"withdrawn": {}})
    assert await served(bench) == ("Active", True)
    assert (await run(bench, "troubles", "--withdraw", **{hours: "0"}))[:2] == (0, "Withdrawn of listings: a, b.\n")
    assert (await served(bench), await served(bench, "b")) == (("Other", False), ("Other", False))
    assert overdue not in (await run(bench, "status", COLUMNS="200", **{hours: "0"}))[1]
    assert (await run(bench, "troubles", "--withdraw", **{hours: "0"}))[:2] == (0, "Nothing to withdraw.\n")
    assert (await run(bench, "troubles", "--withdraw", "--dismiss", "a"))[0] == 2


async def test_a_replication_withdraws_although_its_source_does_not_answer(bench: Bench, tmp_path: Path) -> None:
    await start(bench, listing("Active", 1))
    await bench.update({LISTING: [listing("Sold STC", 2)]})
    settings = {"BROKERAGE_TROUBLE_HOURS": "0", "BROKERAGE_RESO_PATIENCE_SECONDS": "0.1"}
    settings |= {"BROKERAGE_RESO_DIR": str(tmp_path), "BROKERAGE_RESO_TOKEN": "token"}
    code, _, _ = await run(bench, "replicate", "http://127.0.0.1:9", "--company", "acme", **settings)
    assert (code, await served(bench)) == (2, ("Other", False))


async def test_a_probe_refuses_what_it_would_ignore(bench: Bench) -> None:
    code, _, complaint = await run(bench, "replicate", "http://127.0.0.1:9", "--probe", "--json")
    assert (code, "--json is not for --probe." in complaint) == (2, True)
