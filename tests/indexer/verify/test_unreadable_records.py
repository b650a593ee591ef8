"""A verification names kept records of unreadable lines, and records that cannot be requested by their identifier."""

from typing import Any

import orjson
import pytest

from indexer import FolderSource
from indexer.verify.verification import DifferenceKind, verify_against_source
from mappings import AGENT, COMPANY, TEAM, resource
from tests.indexer.command.test_command import run
from tests.indexer.conftest import Bench
from tests.indexer.raw_documents import put_document
from tests.records import UUID_OF_A_TEST, envelope

CAPITALS = UUID_OF_A_TEST.upper()


def team(identifier: str, **changes: Any) -> dict[str, Any]:
    return envelope(TEAM, {"uuid": identifier, **changes})


async def test_the_kept_record_of_an_unreadable_line_is_no_difference(bench: Bench) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [team("t1"), team("t2")]})
    await bench.build({TEAM: [team("t1", name=5), team("t2")]})
    [result] = await verify_against_source(bench.engine(), FolderSource(bench.folder), [TEAM])
    assert (result.is_equal, result.unreadable, result.counts[DifferenceKind.KEPT]) == (True, 1, 1)
    assert [difference.id for difference in result.named[DifferenceKind.KEPT]] == ["t1"]


async def test_records_of_earlier_versions_outside_the_alphabet_are_named_and_stay(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(resource, "is_identifier", lambda _: True)
        await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [team("t\x85"), team("t2")]})
    summary = await bench.build({TEAM: [team("t\x85"), team("t2")]})
    assert (summary.report_for("teams").dead, summary.report_for("teams").kept) == (1, 1)
    code, out, _ = await run(bench, "verify", bench.folder, "teams", "--json")
    [result] = orjson.loads(out)["resources"].values()
    assert (code, result["unreachable"], result["unreachable_named"]) == (0, 1, ["t\x85"])
    _, out, _ = await run(bench, "verify", bench.folder, "teams")
    assert "  unreachable: 't\\x85': an identifier must be 1 to 128 characters" in out


async def test_an_agent_that_an_earlier_version_stored_in_capitals_is_named(bench: Bench) -> None:
    lower = envelope(AGENT)
    await bench.build({AGENT: [lower]})
    alias, (identifier,) = bench.connection.alias(AGENT), await bench.served(AGENT)
    document = (await bench.served(AGENT))[identifier] | {"id": CAPITALS, "feed_key": f"acme:{CAPITALS}"}
    version = {"version": document["version"], "version_type": "external"}
    await put_document(bench.client, alias, CAPITALS, document, **version)
    code, out, _ = await run(bench, "verify", bench.folder, "agents")
    assert code == 1
    named = f"  unreachable: '{CAPITALS}': an identifier must be a UUID, for example "
    (line,) = [line for line in out.splitlines() if line.startswith(named)]
    assert line.endswith(": rebuild, to store it in lower case")
    assert (await bench.build({AGENT: [lower]})).exit_code == 0
    assert (await run(bench, "verify", bench.folder, "agents"))[0] == 0
