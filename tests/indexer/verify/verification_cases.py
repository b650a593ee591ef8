"""Live teams to be verified: their envelopes, changes behind the back of the index, and what is found."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import pytest

from cluster.http.responses import RAW_HEADERS
from indexer import FolderSource, scan
from indexer.verify.verification import VerificationResult, verify_against_source
from mappings import TEAM
from tests.indexer.conftest import Bench
from tests.indexer.raw_documents import routing_of
from tests.records import deletion, envelope, write

OLD, NEW, NEWEST = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"
both_modes = pytest.mark.parametrize("full", [False, True], ids=["digests", "full"])


def team(identifier: str, updated_at: str = NEW, **record: Any) -> dict[str, Any]:
    return envelope(TEAM, {"uuid": identifier, **record}, updated_at=updated_at)


def deleted_team(identifier: str, updated_at: str = NEW) -> dict[str, Any]:
    return deletion(TEAM, identifier, updated_at)


def teams(count: int) -> list[dict[str, Any]]:
    return [team(f"t{number}") for number in range(count)]


async def verified(bench: Bench, lines: Iterable[Any] | None = None, *, full: bool = False) -> VerificationResult:
    """Compare the live teams with the source as it was built, or with other lines."""
    if lines is not None:
        write(bench.folder, {TEAM: lines})
    (result,) = await verify_against_source(bench.engine(), FolderSource(bench.folder), [TEAM], is_full=full)
    return result


def differing_ids(result: VerificationResult) -> dict[str, list[str]]:
    """Return the identifiers by kind, where there are any; their count is the reported one."""
    assert {kind: len(records) for kind, records in result.named.items()} == result.counts
    return {str(kind): [record.id for record in records] for kind, records in result.named.items() if records}


async def put(bench: Bench, identifier: str, source: bytes, version: int) -> None:
    """Write a document's bytes under a version, the present one included."""
    target = f"/{bench.connection.alias(TEAM)}/_doc/{quote(identifier, safe='')}"
    options = f"?refresh=true&version={version}&version_type=external_gte"
    if (routing := await routing_of(bench.client, bench.connection.alias(TEAM), identifier)) is not None:
        options += f"&routing={routing}"
    await bench.client.perform_request("PUT", target + options, headers=RAW_HEADERS, body=source)


async def replace_in(bench: Bench, identifier: str, old: bytes, new: bytes) -> None:
    """Change the stored bytes of a document and nothing else."""
    (document,) = await scan.fetch_documents(bench.engine(), bench.connection.alias(TEAM), [identifier])
    assert old in document.source
    await put(bench, identifier, document.source.replace(old, new), document.version)
