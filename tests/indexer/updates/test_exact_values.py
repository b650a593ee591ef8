"""Exact values of rounded numbers follow their record through updates, rebuilds, rollbacks and verifications."""

from typing import Any

import pytest

from indexer import FolderSource, RefusedError, rollback
from indexer.verify.verification import verify_against_source
from mappings import COMPANY, LISTING
from mappings.indices import index_mapping
from tests.indexer.conftest import Bench
from tests.indexer.parsed_lines import parse_line
from tests.indexer.raw_documents import get_document, routing_of
from tests.records import envelope

_DAYS = [f"2026-02-{day:02}T00:00:00Z" for day in range(1, 9)]
_OTHER = envelope(COMPANY, {"platform_company_id": "other", "numeric_id": None})


def listing(identifier: str, day: int, acres: float, **changes: Any) -> dict[str, Any]:
    record = {"PlatformListingId": identifier, "Status": "Active", "LotSizeAcres": acres}
    return envelope(LISTING, record, updated_at=_DAYS[day], **changes)


async def start(bench: Bench, *lines: dict[str, Any]) -> None:
    """Load listings of two companies."""
    companies = [envelope(COMPANY), _OTHER]
    assert (await bench.build({COMPANY: companies, LISTING: lines}, force=True)).exit_code == 0


async def acres(bench: Bench) -> dict[str, object]:
    """Return the exact acres by identifier, None for a document without; every record has whole ones."""
    served = await bench.served(LISTING)
    live = {identifier: document for identifier, document in served.items() if not document["deleted"]}
    assert {type(document["record"]["LotSizeAcres"]) for document in live.values()} == {int}
    return {identifier: document.get("exact", {}).get("LotSizeAcres") for identifier, document in live.items()}


async def stamp(bench: Bench, identifier: str) -> tuple[int, int]:
    """Return the sequence and the content hash of a document."""
    document = (await bench.served(LISTING))[identifier]
    return document["sequence"], document["content"]


async def test_an_update_of_the_fraction_alone_is_stored_and_no_change_for_followers(bench: Bench) -> None:
    await start(bench, listing("L1", 0, 0.23))
    before = await stamp(bench, "L1")
    summary = await bench.update({LISTING: [listing("L1", 1, 0.24)]})
    assert (summary.report_for("listings").indexed, summary.report_for("listings").unchanged) == (0, 1)
    assert (await acres(bench), await stamp(bench, "L1")) == ({"L1": 0.24}, before)
    await bench.update({LISTING: [listing("L1", 2, 0)]})
    assert (await acres(bench), await stamp(bench, "L1")) == ({"L1": None}, before)
    await bench.update({LISTING: [listing("L1", 3, 1.23)]})
    assert await acres(bench) == {"L1": 1.23}
    assert await stamp(bench, "L1") > before


async def test_of_two_fractions_of_one_moment_the_higher_version_stays_in_any_order(bench: Bench) -> None:
    await start(bench, listing("L1", 0, 3), listing("L2", 0, 3))
    pairs = [[listing(identifier, 1, number) for number in (0.23, 0.24)] for identifier in ("L1", "L2")]
    for first, second in (pairs[0], pairs[0][::-1], pairs[1][::-1], pairs[1]):
        await bench.update({LISTING: [first]})
        await bench.update({LISTING: [second]})
        expected = max((first, second), key=lambda sent: parse_line(LISTING, sent).version)["record"]
        assert (await acres(bench))[expected["PlatformListingId"]] == expected["LotSizeAcres"]


async def test_a_fraction_moves_with_its_record_to_another_company(bench: Bench) -> None:
    await start(bench, listing("L1", 0, 0.23))
    await bench.update({LISTING: [listing("L1", 1, 0.23, platform_company_id="other")]})
    served = await bench.served(LISTING)
    assert (served["L1"]["company"], served["L1"]["exact"]) == ("other", {"LotSizeAcres": 0.23})
    assert ["exact" in document for document in served.values()].count(True) == 1


async def test_a_rebuild_of_one_company_keeps_the_fractions_of_the_others(bench: Bench) -> None:
    await start(bench, listing("L1", 0, 0.23), listing("O1", 0, 0.5, platform_company_id="other"))
    await bench.update({LISTING: [listing("O1", 1, 0.75, platform_company_id="other")]})
    before = await stamp(bench, "L1")
    live = await bench.live(LISTING)
    await bench.build({COMPANY: [envelope(COMPANY)], LISTING: [listing("L1", 2, 0.24), listing("L2", 2, 2.5)]})
    assert await bench.live(LISTING) != live
    assert await acres(bench) == {"L1": 0.24, "L2": 2.5, "O1": 0.75}
    assert await stamp(bench, "L1") == before


async def test_a_rollback_brings_back_the_newest_fractions(bench: Bench) -> None:
    await start(bench, listing("L1", 0, 0.23), listing("L2", 0, 0.23))
    await start(bench, listing("L1", 1, 9.5), listing("L2", 1, 9.5))
    await bench.update({LISTING: [listing("L1", 2, 0.25)]})
    await rollback(bench.engine(), LISTING)
    assert await acres(bench) == {"L1": 0.25, "L2": 0.23}


@pytest.mark.parametrize("full", [False, True], ids=["digests", "full"])
async def test_verify_finds_another_fraction(bench: Bench, full: bool) -> None:
    await start(bench, listing("L1", 0, 0.23), listing("L2", 0, 2.5))

    async def differing() -> int:
        (result,) = await verify_against_source(bench.engine(), FolderSource(bench.folder), [LISTING], is_full=full)
        assert result.compared == 2
        return sum(result.counts.values())

    assert await differing() == 0
    alias = bench.connection.alias(LISTING)
    await bench.update({LISTING: [listing("L1", 0, 0.24)]})
    replaced = (await acres(bench))["L1"] == 0.24
    # Of two states of one moment either may be the newer one.
    assert await differing() == int(replaced)
    source = (await bench.stored_bytes(LISTING, "L2")).replace(b'"exact":{"LotSizeAcres":2.5}', b'"exact":{}')
    found = await get_document(bench.client, alias, "L2")
    headers = {"content-type": "application/json", "accept": "application/json"}
    target = f"/{alias}/_doc/L2?version={found['_version']}&version_type=external_gte&refresh=true"
    if (routing := await routing_of(bench.client, alias, "L2")) is not None:
        target += f"&routing={routing}"
    await bench.client.transport.perform_request("PUT", target, body=source, headers=headers)
    assert await differing() == int(replaced) + int(full)


async def test_an_index_without_exact_values_is_rebuilt_before_updates(bench: Bench) -> None:
    await start(bench, listing("L1", 0, 0.23))
    live, alias = bench.connection.prefix + await bench.live(LISTING), bench.connection.alias(LISTING)
    mapping: Any = index_mapping(LISTING)
    del mapping["properties"]["exact"]
    earlier = await bench.client.indices.get(index=live)
    settings = {
        "index": {name: earlier[live]["settings"]["index"][name] for name in ("sort", "mapping", "max_result_window")}
    }
    meta = {**earlier[live]["mappings"]["_meta"], "fingerprint": "of an earlier version"}
    document = (await bench.served(LISTING))["L1"]
    del document["exact"]
    await bench.client.indices.delete(index=live)
    await bench.client.indices.create(
        index=live, settings=settings, mappings={**mapping, "_meta": meta}, aliases={alias: {}}
    )
    await bench.client.index(index=alias, id="L1", document=document, refresh=True)
    with pytest.raises(RefusedError, match=r"lacks exact\. Rebuild it with `brokerage index reindex SOURCE listings`"):
        await bench.update({LISTING: [listing("L1", 1, 0.24)]})
    assert await acres(bench) == {"L1": None}
    await start(bench, listing("L1", 2, 0.24))
    assert await acres(bench) == {"L1": 0.24}
