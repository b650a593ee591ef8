"""The first law of updates: however a history arrives, every record ends in one state."""

import asyncio
import secrets
from collections.abc import Callable
from itertools import islice
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from indexer.scan import fetch_documents
from mappings import COMPANY, LISTING
from mappings.shards import unhide
from tests.indexer.changes.record_histories import (
    FORMS,
    MOMENTS,
    SECOND_KEY,
    HistoryEvent,
    identifiers,
    latest,
    line,
    pending_document,
)
from tests.indexer.conftest import Bench
from tests.indexer.raw_documents import without_history
from tests.records import envelope, write

State = dict[str, tuple[int, bytes]]

COMPANIES = [
    envelope(COMPANY),
    envelope(COMPANY, {"platform_company_id": SECOND_KEY, "numeric_id": "7"}),
]
slow = settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))


class Delivery:
    """One example: records that no other example has, their history, and how it is delivered."""

    def __init__(self, data: st.DataObject, records: int) -> None:
        self.data = data
        self.names = list(islice(identifiers(f"{secrets.token_hex(4)}-"), records))
        moments, forms = st.integers(0, len(MOMENTS) - 1), st.integers(0, len(FORMS) - 1)
        event = st.builds(HistoryEvent, st.integers(0, records - 1), moments, forms)
        self.history = data.draw(st.lists(event, min_size=3 * records, max_size=5 * records), "history")
        again = data.draw(st.lists(st.sampled_from(self.history), max_size=records), "repeated")
        self.order = data.draw(st.permutations([*self.history, *again]), "order")
        places = st.integers(1, len(self.order) - 1)
        self.cuts = sorted(data.draw(st.lists(places, min_size=1, max_size=2, unique=True), "cuts"))
        self.batch = data.draw(st.sampled_from([3, 20, 500]), "batch")
        note(f"identifiers {self.names[0]} and so on")

    async def run(self, bench: Bench, begin: int, end: int) -> None:
        """Apply a part of the delivery in one run."""
        lines = [line(self.names[event.record], event) for event in self.order[begin:end]]
        summary = await bench.update({LISTING: lines}, bulk_documents=self.batch)
        assert summary.report_for("listings").dead == 0

    async def rebuild(self, bench: Bench, delivered: int) -> None:
        """Rebuild from a source that knows what was delivered, and some of what was not yet."""
        ahead = self.data.draw(st.integers(delivered, len(self.order)), "the source knows")
        lists_deletions = self.data.draw(st.booleans(), "deletions are listed")
        last = [(name, latest(name, events)) for name, events in self.by_record(self.order[:ahead]).items()]
        kept = [state for state in last if lists_deletions or FORMS[state[1].form].price is not None]
        write(bench.folder, {COMPANY: COMPANIES, LISTING: [line(*state) for state in kept]})
        summary = await bench.build_folder([LISTING], force=True)
        assert summary.exit_code == 0

    def by_record(self, events: list[HistoryEvent]) -> dict[str, list[HistoryEvent]]:
        found: dict[str, list[HistoryEvent]] = {}
        for event in events:
            found.setdefault(self.names[event.record], []).append(event)
        return found

    async def check(self, bench: Bench) -> None:
        """Compare all that is stored with the latest state of each record, but for the stamps.

        A record that has changed its shard also says until the next rebuild when which copy is hidden.
        """
        expected: State = {}
        for name, events in self.by_record(self.history).items():
            state = pending_document(name, latest(name, events))
            expected[name] = state.version, without_history(state.stamped_source(0, 0))
        alias = bench.connection.alias(LISTING)
        await bench.client.indices.refresh(index=alias)
        found = await fetch_documents(bench.engine(), alias, self.names)
        assert {
            document.id: (document.version, unhide(without_history(document.source))) for document in found
        } == expected


async def start(bench: Bench) -> None:
    """Build what updates need, unless an earlier example has."""
    if not await bench.client.indices.exists_alias(name=bench.connection.alias(LISTING)):
        assert (await bench.build({COMPANY: COMPANIES, LISTING: []})).exit_code == 0


@slow
@given(data=st.data())
async def test_any_order_any_repetition_and_any_cut_end_in_one_state(
    bench: Bench, amount: Callable[[int, int], int], data: st.DataObject
) -> None:
    await start(bench)
    delivery = Delivery(data, amount(30, 60))
    for begin, end in zip([0, *delivery.cuts], [*delivery.cuts, None], strict=True):
        await delivery.run(bench, begin, end or len(delivery.order))
    await delivery.check(bench)


@slow
@given(data=st.data())
async def test_a_rebuild_in_the_middle_changes_nothing_about_the_end(
    bench: Bench, amount: Callable[[int, int], int], data: st.DataObject
) -> None:
    await start(bench)
    delivery = Delivery(data, amount(30, 60))
    cut = delivery.cuts[0]
    await delivery.run(bench, 0, cut)
    works: list[Any] = [delivery.rebuild(bench, cut), delivery.run(bench, cut, len(delivery.order))]
    if data.draw(st.booleans(), "side by side"):
        await asyncio.gather(*works)
    else:
        for work in works:
            await work
    await delivery.check(bench)
