"""`brokerage index load` as an operator meets it: a draft, a question, a load, and a map that is kept."""

import asyncio
import os
import pty
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mappings import AGENT, COMPANY, LISTING
from tests.indexer.command.test_command import environment, lines, run
from tests.indexer.conftest import Bench
from tests.records import envelope
from tests.terminal import read_to_end

HEADER = "MLS #,Stat,List Price,City/Town,Agent No,Last Chg\n"
ROW = '{number},{status},"$500,000",Rye,{agent},2026-01-0{day}\n'
AGENTS = "Agent No,First,Last\n7,Ann,Oh\n"


def table(folder: Path, *numbers: int, status: str = "A", day: int = 1, name: str = "listings.csv") -> Path:
    rows = [ROW.format(number=number, status=status, agent=7, day=day) for number in numbers]
    (folder / name).write_text(HEADER + "".join(rows))
    return folder / name


async def test_one_line_leads_from_tables_to_the_first_page(bench: Bench, tmp_path: Path) -> None:
    listings, agents = table(tmp_path, 1, 2), tmp_path / "agents.csv"
    agents.write_text(AGENTS)
    code, out, err = await run(bench, "load", listings, agents, "--company", "acme", "--name", "Acme", "--yes")
    assert code == 0, err
    assert f"Written: {tmp_path / 'acme.toml'}." in err
    assert "Load 1 agent, 2 listings of the new company acme." in err
    assert "brokerage keys create" in out
    assert "/v1/listings?platform_company_id=acme&updated_since=1'" in out
    (company,), (agent,) = (await bench.served(COMPANY)).values(), (await bench.served(AGENT)).values()
    assert company["record"]["name"] == "Acme"
    served = await bench.served(LISTING)
    assert {one["record"]["ListAgentUUID"] for one in served.values()} == {agent["record"]["agent_uuid"]}
    assert {name: one["record"]["Status"] for name, one in served.items()} == {"1": "Active", "2": "Active"}


async def test_a_kept_map_is_used_as_it_is_and_other_records_stay(bench: Bench, tmp_path: Path) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], LISTING: [envelope(LISTING)], AGENT: [envelope(AGENT)]})
    listings, kept = table(tmp_path, 1, 2), tmp_path / "new.toml"
    assert (await run(bench, "load", listings, "--company", "new", "--yes"))[0] == 0
    before = kept.read_text()
    kept.write_text(before.replace("[listings.record]", '[listings.record]\nPublicTitle = "Mine"'))
    edited = kept.read_text()
    listings.write_text(
        HEADER.replace("\n", ",Pool\n") + ROW.format(number=1, status="A", agent=8, day=2)[:-1] + ",Y\n"
    )
    code, _, err = await run(bench, "load", listings, "--company", "new", "--yes")
    assert (code, kept.read_text()) == (0, edited), err
    assert f"{kept} is used as it is" in err
    assert f"New: {kept} does not read the column 'Pool' of listings.csv, which looks like PoolYN." in err
    assert "Load 1 listing of new, in place of 2 live listings." in err
    served = await bench.served(LISTING)
    assert {one["company"] for one in served.values()} == {"new", "acme"}
    assert served["1"]["record"]["PublicTitle"] == "Mine"
    assert len(await bench.served(AGENT)) == 1
    # A resource that the map lacks is added to its end; one that it has is not guessed to be of other files.
    agents = tmp_path / "agents.csv"
    agents.write_text(AGENTS)
    assert (await run(bench, "load", agents, "--company", "new", "--yes"))[0] == 0
    assert kept.read_text().startswith(edited.rstrip())
    assert set(tomllib.loads(kept.read_text())) == {"company", "listings", "agents"}
    code, _, err = await run(bench, "load", table(tmp_path, 3, name="more.csv"), "--company", "new", "--yes")
    assert (code, "reads listings from other files than" in err) == (2, True)
    code, _, err = await run(bench, "load", listings, "--company", "acme", "--map", kept, "--yes")
    assert (code, err.endswith(f"{kept} is the map of new, not of acme: name another with --map.\n")) == (2, True)


async def test_deletions_pass_the_gates(bench: Bench, tmp_path: Path) -> None:
    assert (await run(bench, "load", table(tmp_path, *range(30)), "--company", "acme", "--yes"))[0] == 0
    code, _, err = await run(bench, "load", table(tmp_path, 1), "--company", "acme", "--yes")
    assert code == 1
    assert "would remove 29 of 30 live listings" in err
    assert f"To go live anyway: brokerage index reindex {tmp_path / 'acme.toml'} --company acme --force" in err
    assert len(await bench.served(LISTING)) == 30


@pytest.mark.parametrize("options", [(), ("--json",)])
async def test_without_a_terminal_it_is_not_loaded_unless_it_is_told_to(
    bench: Bench, tmp_path: Path, options: tuple[str, ...]
) -> None:
    code, out, err = await run(bench, "load", table(tmp_path, 1), "--company", "acme", *options)
    assert (code, "run the same command with --yes." in err) == (2, True)
    assert (tmp_path / "acme.toml").exists()
    code, out, err = await run(bench, "load", tmp_path / "listings.csv", "--company", "acme", "--yes", "--json")
    assert (code, err.startswith("Note: "), err.count("\n")) == (0, True, 1)
    assert {"note", "check", "progress", "summary"} == {event["event"] for event in lines(out)}


async def test_bad_lines_of_a_first_load_are_counted_and_asked_about(bench: Bench, tmp_path: Path) -> None:
    listings = table(tmp_path, *range(20))
    listings.write_text(listings.read_text() + "".join(f"x{n},Odd,5,Rye,7,2026-01-01\n" for n in range(20)))
    code, out, err = await run(bench, "load", listings, "--company", "acme")
    assert code == 2
    assert "add to the map, or their rows are invalid: Odd" in out
    assert "20 of 40 lines of listings cannot be read and will not be served." in err

    def on_terminal(typed: bytes) -> tuple[int, str]:
        screen, terminal = pty.openpty()
        program = [sys.executable, "-c", "from brokerage.index import index; index()", "load"]
        given = os.environ | environment(bench) | {"COLUMNS": "200"}
        started = subprocess.Popen(  # noqa: S603 - a fixed command
            [*program, str(listings), "--company", "acme"], env=given, stdin=terminal, stdout=terminal, stderr=terminal
        )
        os.close(terminal)
        os.write(screen, typed)
        said = read_to_end(screen)
        return started.wait(), said

    code, said = await asyncio.to_thread(on_terminal, b"n\n")
    assert (code, "Nothing was loaded. Correct" in said) == (1, True)
    assert not await bench.client.indices.exists_alias(name=bench.connection.alias(LISTING))
    code, said = await asyncio.to_thread(on_terminal, b"y\n")
    # Some lines are bad; the others are served.
    assert (code, len(await bench.served(LISTING))) == (1, 20)


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("Nick,Stat\n1,A\n", (), "The map lacks listings.record.PlatformListingId. Complete "),
        ("id,Stat\n1,A\n", ("--company", "a b"), "--company is 'a b': use 1 to 64 letters"),
    ],
)
async def test_what_is_missing_is_said(
    bench: Bench, tmp_path: Path, text: str, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "listings.csv").write_text(text)
    code, _, err = await run(bench, "load", tmp_path / "listings.csv", *(arguments or ("--company", "acme")), "--yes")
    assert (code, said in " ".join(err.replace("│", "").split())) == (2, True), err
