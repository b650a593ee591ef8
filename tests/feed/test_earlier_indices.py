"""Indices that were built before documents had all hashes and search fields of this version."""

from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import pytest

from indexer.documents.builder import missing_values, restricted_hashes
from indexer.documents.companies import EVERY_COMPANY
from indexer.errors import RefusedError
from mappings import COMPANY, LISTING, SOLD_LISTING
from mappings.search_fields import HISTORY_FIELDS, SYSTEM_FIELDS, Conversion
from mappings.visibility import OPT_OUTS
from service.health.monitor import HEALTH_MONITOR, HealthMonitor
from tests.feed.feed_client import ConsumerCopy, FeedClient, company, listing

_TEXTS = frozenset({Conversion.TEXT, Conversion.OPEN_HOUSES})
_NUMBERS_AND_TEXTS = _TEXTS | {Conversion.EXACT, Conversion.FEATURE, Conversion.COUNT}
_NOTHING = frozenset[Conversion]()
_PATHS = ("changes", "snapshot/listings", "digest/listings")


@contextmanager
def earlier_version(
    monkeypatch: pytest.MonkeyPatch, *, has_display: bool = True, lacking: frozenset[Conversion] = _NOTHING
) -> Iterator[None]:
    """Declare listings as that version did.

    Without `has_display` as one that knew no display licence either, and without the search fields `lacking`.
    """
    fields = tuple(
        field
        for field in LISTING.search_fields
        if (has_display or field not in OPT_OUTS) and field.conversion not in lacking
    )
    with monkeypatch.context() as patch:
        for name, value in (
            ("search_fields", fields),
            ("restricted_contents", ()),
            ("address_contents", ()),
            # This version writes the history of changes into each document.
            ("own_fields", fields + HISTORY_FIELDS),
            ("indexed_fields", SYSTEM_FIELDS + fields + HISTORY_FIELDS),
        ):
            patch.setitem(LISTING.__dict__, name, value)
        restricted_hashes.cache_clear()
        missing_values.cache_clear()
        yield
    restricted_hashes.cache_clear()
    missing_values.cache_clear()


async def _build(feed: FeedClient, *, price: int) -> None:
    lines = [listing(f"L{number}", "a", price=price) for number in range(4)]
    built = await feed.bench.build({COMPANY: [company("a")], LISTING: lines}, force=True, covered=EVERY_COMPANY)
    assert built.exit_code == 0


async def check_health(feed: FeedClient) -> None:
    """Check the indices now."""
    monitor: HealthMonitor = feed.http.server.app[HEALTH_MONITOR]  # type: ignore[attr-defined]
    await monitor.check_now()


async def test_restricted_keys_wait_for_the_rebuild_that_completes_documents_it_copies(
    feed: FeedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with earlier_version(monkeypatch):
        await _build(feed, price=5)
        await feed.update(listing("L1", "a", 9, price=7))
    await check_health(feed)
    for path in _PATHS:
        status, body = await feed.get(path, "poor")
        assert (status, "brokerage index reindex" in orjson.loads(body)["detail"]) == (503, True), path
        assert (await feed.get(path))[0] == 200
    await _build(feed, price=5)
    await check_health(feed)
    copied = ConsumerCopy("listings")
    copied.load(await feed.snapshot("listings", "poor"))
    assert copied.records["L1"][1]["ListPrice"] == 7
    changes, *_ = await feed.changes(None, "poor", resources="listings")
    assert {line["id"]: line["content"] for line in changes if "record" in line} == {
        name: content for name, (content, _) in copied.records.items()
    }
    await feed.update(listing("L1", "a", 10, price=8))
    await feed.update(listing("L1", "a", 11, price=7))
    assert (await feed.snapshot("listings", "poor"))[2]["content"] == copied.records["L1"][0]


async def test_updates_are_refused_until_the_rebuild(feed: FeedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with earlier_version(monkeypatch):
        await _build(feed, price=5)
    changed = {LISTING: [listing("L1", "a", 9, price=7)]}
    with pytest.raises(RefusedError, match=r"lacks content_.*`brokerage index reindex SOURCE listings`"):
        await feed.bench.update(changed)
    await _build(feed, price=5)
    assert (await feed.bench.update(changed)).report_for("listings").indexed == 1


_BY_TEXTS = (
    "Property?$filter=ListPrice eq 7 and ListOfficeName ne null",
    "Property?$filter=ListPrice eq 7 and OpenHouse/any(o:o/OpenHouseDate ne null)",
    "OpenHouse?$filter=ListingKey eq 'L1' and OpenHouseDate ne null",
    "OpenHouse?$filter=ListingKey eq 'L1'&$orderby=OpenHouseDate",
)
_BY_NUMBERS = (
    "Property?$filter=ListPrice eq 7",
    "Property?$filter=Heating/any() or ListPrice eq 7",
    "Property?$orderby=ListPrice desc&$top=1",
)


@pytest.mark.parametrize(
    ("lacking", "asked"), [(_NUMBERS_AND_TEXTS, (*_BY_NUMBERS, *_BY_TEXTS)), (_TEXTS, _BY_TEXTS)], ids=["all", "texts"]
)
async def test_odata_waits_for_the_rebuild_that_completes_documents_it_copies(
    feed: FeedClient, monkeypatch: pytest.MonkeyPatch, lacking: frozenset[Conversion], asked: tuple[str, ...]
) -> None:
    with earlier_version(monkeypatch, lacking=lacking):
        await _build(feed, price=5)
        await feed.update(listing("L1", "a", 9, price=7))
    await feed.bench.build({SOLD_LISTING: []}, force=True)
    await check_health(feed)
    for path in asked:
        status, body = await feed.get(f"reso/{path}")
        assert (status, "brokerage index reindex" in orjson.loads(body)["error"]["message"]) == (503, True), path
    assert (await feed.get("reso/Property?$filter=StandardStatus eq 'Active'&$orderby=ListingKey"))[0] == 200
    await _build(feed, price=5)
    await check_health(feed)
    for path in asked:
        status, body = await feed.get(f"reso/{path}")
        assert (status, {each["ListingKey"] for each in orjson.loads(body)["value"]}) == (200, {"L1"}), path
