"""Following a source by its EntityEvents: one sequence with the keys of all changed records.

Events may become visible late, a lower number after a higher one. So each pass reads some earlier events again and
applies only new ones. Events that never appear are covered by the comparison of all keys.
"""

from collections import defaultdict
from collections.abc import Mapping
from http import HTTPStatus

from indexer.errors import SourceError
from indexer.reso.client.odata import EVENT_SEQUENCE_FIELD, ODataQuery, SourceRejectedError, string_literal
from indexer.reso.client.reso_client import ResoClient
from indexer.reso.mapping.values import describe_value
from indexer.reso.mirror import Mirror, key_text
from indexer.reso.settings import ResoSettings
from indexer.reso.sync.entity_reader import EntityReader, SourceRow

EVENT_ENTITY = "EntityEvent"
_SEQUENCE_NOTE = "event"
# How often an empty page is requested again while the source reports a higher sequence.
_ATTEMPTS = 4
# How often the latest sequence is requested while there seem to be no events.
_EMPTY_CHECKS = 2
# `Edm.Int64`, and an integer of SQLite.
_MAX_SEQUENCE = 2**63 - 1
_FIELDS = (EVENT_SEQUENCE_FIELD, "ResourceName", "ResourceRecordKey")


class EntityEventFollower:
    def __init__(
        self, client: ResoClient, mirror: Mirror, readers: Mapping[str, EntityReader], settings: ResoSettings
    ) -> None:
        self._client, self._mirror, self._readers, self._settings = client, mirror, readers, settings
        self._entities_with_events: set[str] = set()
        self._resume_at = 0  # where to follow from after all keys were compared

    @property
    def last_processed(self) -> int | None:
        """The highest sequence number that was applied; None before a start was set."""
        noted = self._mirror.read_note(_SEQUENCE_NOTE)
        return None if noted is None else int(noted)

    async def has_events_of(self, entity: str) -> bool:
        """Whether an entity ever had an event: some sources write them for a few entities only."""
        if entity not in self._entities_with_events:
            query = ODataQuery(EVENT_ENTITY, _FIELDS, top=1).where(f"ResourceName eq {string_literal(entity)}")
            if (await self._client.fetch_page(query)).value:
                self._entities_with_events.add(entity)
        return entity in self._entities_with_events

    def set_start(self, sequence: int) -> None:
        with self._mirror.transaction():
            self._mirror.write_note(_SEQUENCE_NOTE, sequence)

    async def latest_sequence(self) -> int:
        """Return the highest sequence number of the source, 0 if it has no events."""
        query = ODataQuery(EVENT_ENTITY, _FIELDS, order_by=f"{EVENT_SEQUENCE_FIELD} desc", top=1)
        for _ in range(_EMPTY_CHECKS):
            if rows := (await self._client.fetch_page(query)).value:
                return max(_sequence_of(row) for row in rows)
        return 0

    async def follow(self) -> bool:
        """Apply all new events; return False if some are unknown, so that all keys must be compared.

        A source that has purged old events answers 410 to a position before them. That the margin reaches so far
        back loses nothing.
        """
        for margin in dict.fromkeys((self._settings.event_margin, 0)):
            processed = self.last_processed or 0
            try:
                return await self._follow_from(max(0, processed - margin), processed)
            except SourceRejectedError as error:
                if error.status != HTTPStatus.GONE:
                    raise
        self._resume_at = await self.latest_sequence()
        return False

    async def _follow_from(self, position: int, processed: int) -> bool:
        """Apply the events after a position; return False if the source has started a new sequence."""
        for _ in range(_ATTEMPTS):
            while rows := await self._page(position):
                position = max(_sequence_of(row) for row in rows)
                await self._apply(rows)
            # A busy source may return an empty page.
            if (latest := await self.latest_sequence()) <= position:
                break
        if max(latest, position) >= processed:
            return True
        # An empty event list is not evidence of a new sequence.
        return (last := await self.latest_sequence()) >= processed or last == 0

    def restart(self) -> None:
        """Follow from before the comparison; called after all keys were compared, so that a killed run repeats both."""
        with self._mirror.transaction():
            self._mirror.add_events((), forget_below=(self.last_processed or 0) + 1)
            self._mirror.write_note(_SEQUENCE_NOTE, self._resume_at)
        self._resume_at = 0

    async def _page(self, position: int) -> list[SourceRow]:
        query = ODataQuery(EVENT_ENTITY, _FIELDS, order_by=EVENT_SEQUENCE_FIELD, page_size=self._settings.page_size)
        rows = (await self._client.fetch_page(query.where(f"{EVENT_SEQUENCE_FIELD} gt {position}"))).value
        numbers = [_sequence_of(row) for row in rows]
        if numbers != sorted(numbers) or (numbers and numbers[0] <= position):
            raise SourceError(f"{EVENT_ENTITY}: the source ignores a filter or an order by {EVENT_SEQUENCE_FIELD}.")
        return rows

    async def _apply(self, rows: list[SourceRow]) -> None:
        """Read the records that a page of events names, and store both in one transaction."""
        numbers = [_sequence_of(row) for row in rows]
        unseen = self._mirror.unseen_events(numbers)
        changed: dict[str, dict[str, None]] = defaultdict(dict)
        for row in rows:
            name, key = row.get("ResourceName"), key_text(row.get("ResourceRecordKey"))
            if _sequence_of(row) in unseen and isinstance(name, str) and name in self._readers and key:
                changed[name][key] = None
        gone = {name: await self._readers[name].refresh_keys(list(keys)) for name, keys in changed.items()}
        processed = max(self.last_processed or 0, *numbers)
        with self._mirror.transaction():
            for name, keys in gone.items():
                self._readers[name].remove(keys)
            self._mirror.add_events(unseen, forget_below=processed - self._settings.event_margin)
            self._mirror.write_note(_SEQUENCE_NOTE, processed)


def _sequence_of(row: SourceRow) -> int:
    value = row.get(EVENT_SEQUENCE_FIELD)
    try:
        number = int(value) if not isinstance(value, bool) else -1  # type: ignore[arg-type]  # a number, also as text
    except (TypeError, ValueError, OverflowError):
        number = -1
    if not 0 <= number <= _MAX_SEQUENCE:
        raise SourceError(
            f"{EVENT_ENTITY}: {EVENT_SEQUENCE_FIELD} is {describe_value(value)}, not a number of 64 bits."
        )
    return number
