"""The log of changes: one event for each write, gaps, compaction, events that come late or never."""

from __future__ import annotations

from tests.reso.api_reader import ApiReader, open_reader
from tests.reso.server.schema import EVENTS
from tests.reso.server.server_settings import ServerSettings


async def poll_events(reading: ApiReader, after: int = 0) -> list[tuple[int, str]]:
    """Return sequences and keys behind a mark, as a consumer polls."""
    where = f"EntityEventSequence gt {after}"
    rows = await reading.rows(EVENTS, filter=where, orderby="EntityEventSequence")
    return [(row["EntityEventSequence"], row["ResourceRecordKey"]) for row in rows]


def put_offices(reading: ApiReader, *keys: str) -> None:
    """Write offices."""
    for key in keys:
        reading.server.put("Office", {"OfficeKey": key})


async def test_every_insert_update_and_deletion_is_one_event_and_sequences_have_gaps() -> None:
    async with open_reader(ServerSettings(event_gap=5)) as reading:
        put_offices(reading, *"abcdefgh", "a")
        reading.server.delete("Office", "b")
        assert not reading.server.delete("Office", "b")
        found = await poll_events(reading)
        _, event, _ = await reading.ask(f"{EVENTS}('{found[0][0]}')")
    sequences = [sequence for sequence, _ in found]
    assert [key for _, key in found] == [*"abcdefgh", "a", "b"]
    assert sequences == sorted(set(sequences))
    assert sequences != list(range(sequences[0], sequences[0] + 10))
    assert (event["ResourceName"], event["ResourceRecordUrl"]) == ("Office", f"{reading.server.url}/Office('a')")


async def test_the_url_of_an_event_leads_to_its_record() -> None:
    async with open_reader() as reading:
        put_offices(reading, "O'Brien & 50% ü+?#/x")
        (event,) = await reading.rows(EVENTS)
        _, record, _ = await reading.ask(event["ResourceRecordUrl"])
    assert record["OfficeKey"] == event["ResourceRecordKey"]


async def test_compaction_keeps_the_last_event_of_each_record() -> None:
    async with open_reader() as reading:
        put_offices(reading, *"abab")
        reading.server.delete("Office", "a")
        before = await poll_events(reading)
        reading.server.compact()
        assert await poll_events(reading) == before[3:]


async def test_a_late_event_appears_below_what_was_read_already() -> None:
    async with open_reader() as reading:
        reading.server.events.hold()
        put_offices(reading, "late")
        assert reading.server.get("Office", "late")
        late = reading.server.events.late
        reading.server.events.release()
        reading.server.events.hold()
        reading.server.events.release()
        assert [sequence for sequence, _ in await poll_events(reading)] == late


async def test_reading_after_the_last_sequence_misses_events_that_become_visible_out_of_order() -> None:
    async with open_reader(ServerSettings(late_share=0.4, late_requests=4)) as reading:
        seen: list[tuple[int, str]] = []
        for number in range(30):
            put_offices(reading, f"o{number}")
            seen += await poll_events(reading, seen[-1][0] if seen else 0)
        for _ in range(4):
            everything = await poll_events(reading)
    assert len(everything) == 30
    assert 0 < len(set(everything) - set(seen)) < 30


async def test_a_lost_event_never_comes() -> None:
    async with open_reader(ServerSettings(lost_share=1.0)) as reading:
        put_offices(reading, *"abc")
        assert (len(await reading.rows("Office")), await poll_events(reading)) == (3, [])


async def test_a_bulk_update_gives_all_rows_one_moment_and_each_an_event() -> None:
    async with open_reader() as reading:
        put_offices(reading, *"abc")
        reading.server.touch("Office")
        assert len({row["ModificationTimestamp"] for row in await reading.rows("Office")}) == 1
        assert len(await poll_events(reading)) == 6


async def test_drift_writes_moments_out_of_order() -> None:
    async with open_reader(ServerSettings(drift_ms=50)) as reading:
        put_offices(reading, *"abcdefghijkl")
        moments = [row["ModificationTimestamp"] for row in await reading.rows("Office")]
    assert moments != sorted(moments)
