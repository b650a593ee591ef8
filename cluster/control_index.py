"""The control index: the small documents through which the indexer publishes its progress to the service.

These are the mark of each resource, the ledger of events that is derived from the marks (decision 13), the number of
records that are not as their source says, and the secret keys that seal the tokens of the feed. The ledger has one
number for every change of every resource. A *publication* maps a range of a resource's sequences to event numbers.
Publications are only ever appended, so the number of an event never changes, and later events have higher numbers.
"""

import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from elasticsearch import AsyncElasticsearch, BadRequestError, ConflictError, NotFoundError
from msgspec.structs import replace

CONTROL_BODY: dict[str, Any] = {
    "settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1"},
    "mappings": {"dynamic": False},
}


# Milliseconds: how far back a reader without a watermark starts.
_LONGEST_VOID = 7 * 86_400_000


class Mark(msgspec.Struct, frozen=True):
    """The published watermark of a resource: all changes stamped up to here are visible to searches.

    `clock` is in milliseconds since 1970, `sequence` counts changes, `epoch` counts rollbacks, `generation` is the name
    of the index. Later changes get a higher clock and a higher sequence.

    `forgotten` is the highest sequence of a deleted tombstone: a reader that is behind it may have missed a deletion.
    It is published before the tombstones are deleted.

    `epoch_id` is a random name for what the sequence counts (decision 18). It changes when the data do not continue
    those that readers have seen, as after a restore. Marks of earlier versions have none; readers up to the sequence
    `named_at`, at which such a mark got its name, may continue without it. `resend_before` is in milliseconds since
    1970: readers by time that have stopped before it read everything once more. `index` and `control` are the
    identities of the generation and of the control index (`index_identity`), empty if unknown.

    Clocks above `repaired`, and above `resend_before`, up to `void` were published by an indexer whose own clock was
    ahead. Their changes were stamped again from `repaired` on; so a reader that continues from such a clock continues
    from there (decision 31).
    """

    clock: int
    sequence: int
    epoch: int
    generation: str
    forgotten: int = 0
    epoch_id: str = msgspec.field(name="life", default="")  # the name in stored marks since 1.0.0
    named_at: int = -1
    resend_before: int = 0
    index: str = ""
    control: str = ""
    repaired: int = 0
    void: int = 0

    def clock_to_resume(self, clock: int) -> int:
        """Return the clock from which a reader must continue that was given `clock`."""
        if clock < self.resend_before:
            return 0
        return self.repaired if self._is_void(clock) else clock

    @property
    def is_void_long(self) -> bool:
        """Whether void clocks are believed once their time has come, because true ones would repeat too much.

        Up to a week, a reader with a true one receives at most what a reader without a watermark does.
        """
        return self.void - self._void_from > _LONGEST_VOID

    @property
    def _void_from(self) -> int:
        return max(self.repaired, self.resend_before)

    def _is_void(self, clock: int) -> bool:
        return self._void_from < clock <= self.void and (clock > self.clock or not self.is_void_long)


def mark_id(alias: str) -> str:
    return f"mark-{alias}"


class StandingTroubles(msgspec.Struct, frozen=True):
    """How many records of a resource are not served as their source says (`indexer.troubles`).

    `since` is when the oldest of them was first read so, in milliseconds since 1970, 0 without any. `pending` and
    `pending_since` are those that no run has looked at since they were due to be withdrawn, or that are not due yet.
    """

    count: int = 0
    since: int = 0
    pending: int = 0
    pending_since: int = 0


def troubles_id(alias: str) -> str:
    return f"troubles-{alias}"


def total_troubles(of_resources: Iterable[StandingTroubles]) -> StandingTroubles:
    """Return the number of records of all resources, and since when the oldest stands."""
    standing = [found for found in of_resources if found.count]
    pending = [found for found in standing if found.pending]
    return StandingTroubles(
        sum(found.count for found in standing),
        min((found.since for found in standing), default=0),
        sum(found.pending for found in pending),
        min((found.pending_since for found in pending), default=0),
    )


def troubles_sentence(standing: StandingTroubles) -> str:
    """Return how many records are not served as their source says, and since when."""
    subject = "1 record is" if standing.count == 1 else f"{standing.count:,} records are"
    source = "its source says" if standing.count == 1 else "their source says"
    since = time.strftime("%Y-%m-%d %H:%M", time.gmtime(standing.since / 1000))
    return f"{subject} not served as {source}, since {since} UTC."


def overdue_sentence(standing: StandingTroubles, hours: float) -> str:
    """Return that records are still served as before after their hours, in a sentence, empty if none is."""
    if not standing.pending or standing.pending_since / 1000 + hours * 3600 > time.time():
        return ""
    since = time.strftime("%Y-%m-%d %H:%M", time.gmtime(standing.pending_since / 1000))
    return (
        f"No run has withdrawn the listed records since {since} UTC, longer than the {hours:g} hours "
        "of BROKERAGE_TROUBLE_HOURS: listings may be shown for sale that are not. Run `brokerage index troubles "
        "--withdraw`, and schedule it."
    )


async def ensure_index(client: AsyncElasticsearch, index: str, body: dict[str, Any]) -> None:
    try:
        await client.indices.create(index=index, **body)
    except BadRequestError as error:
        if error.error != "resource_already_exists_exception":
            raise


async def read_mark(client: AsyncElasticsearch, control_index: str, alias: str) -> Mark | None:
    """Return the mark of a resource, or None before its first build."""
    try:
        response = await client.get(index=control_index, id=mark_id(alias))
    except NotFoundError:
        return None
    return msgspec.convert(response["_source"], Mark)


async def publish_mark(
    client: AsyncElasticsearch, control_index: str, alias: str, mark: Mark, *, holder: int = 0, **condition: Any
) -> dict[str, Any]:
    """Write the mark of a resource and return the response. Call it only after the refresh and the alias swap.

    `condition` is the compare-and-set condition, which keeps marks from going back. `holder` is the token of the lock.
    Raises the client's ConflictError if another process has written the mark.
    """
    document = msgspec.to_builtins(mark) | {"holder": holder}
    response = await client.index(index=control_index, id=mark_id(alias), document=document, refresh=True, **condition)
    return dict(response)


HEAD_ID = "events"
# Publications per archive. The head, which is rewritten with each publication, holds at most a few more.
PUBLICATIONS_PER_ARCHIVE = 500
# This many take 16 MB. Beyond, all events are republished, with one publication per resource.
MAX_PUBLICATIONS = 1_000_000


class Publication(msgspec.Struct, frozen=True, array_like=True):
    """The change of `alias` with sequence s, where after < s <= upto, is event base + s - after."""

    alias: str
    after: int
    upto: int
    base: int

    @property
    def end(self) -> int:
        """The number of its last event."""
        return self.base + self.upto - self.after


class PublishedExtent(msgspec.Struct, frozen=True, array_like=True):
    """How far a resource is published: up to `upto` in `epoch`. Publications with a base below `begin` are void."""

    epoch: int
    upto: int
    begin: int


class LedgerHead(msgspec.Struct, frozen=True):
    """The ledger without its archives: the document that is replaced by compare-and-set.

    `end` is the highest assigned number. `publications` are the newest, ordered by base; the archives `first` to
    `archived` - 1 hold the earlier ones, PUBLICATIONS_PER_ARCHIVE each. A reader that started before `void` and has not
    reached it may hold records that a rollback or a restore removed without a tombstone. `control` is the identity of
    the control index (`index_identity`), empty if unknown.
    """

    end: int = 0
    void: int = 0
    first: int = 0
    archived: int = 0
    reaches: dict[str, PublishedExtent] = {}
    publications: tuple[Publication, ...] = ()
    control: str = ""

    @property
    def count(self) -> int:
        """The number of publications in the head and its archives."""
        return (self.archived - self.first) * PUBLICATIONS_PER_ARCHIVE + len(self.publications)


class LedgerArchive(msgspec.Struct, frozen=True):
    """Publications that no longer change. All writers write the same content for the same archive number."""

    publications: tuple[Publication, ...]


def archive_id(number: int) -> str:
    return f"{HEAD_ID}-{number:06}"


def split_archive(head: LedgerHead) -> tuple[LedgerHead, LedgerArchive | None]:
    """Return the head without its oldest publications, and the archive of those; None if the head is small enough.

    The last publication may still grow, so it stays in the head. A head that is due for archiving is always split
    before it advances, so the content of archive number `head.archived` is unambiguous.
    """
    if len(head.publications) <= PUBLICATIONS_PER_ARCHIVE:
        return head, None
    old, new = head.publications[:PUBLICATIONS_PER_ARCHIVE], head.publications[PUBLICATIONS_PER_ARCHIVE:]
    return replace(head, publications=new, archived=head.archived + 1), LedgerArchive(old)


def renumbered(head: LedgerHead, number: int) -> LedgerHead:
    """Return the ledger with its next numbers above `number`, and all readers so far before its `void`.

    For a ledger that is new or was restored: a lost one may have used the numbers that it would assign next.
    """
    end = max(head.end, number)
    return replace(head, end=end, void=end + 1)


def advance(head: LedgerHead, marks: Mapping[str, Mark]) -> LedgerHead:
    """Return the ledger with everything up to the published marks (by alias); the same head if nothing is new.

    Idempotent: marks that were applied before, in any order, change nothing. The last published resource comes first,
    since its publication can grow.
    """
    last = head.publications[-1].alias if head.publications else ""
    for alias in sorted(marks, key=lambda alias: alias != last):
        head = _advance_resource(head, alias, marks[alias])
    return _republish_all(head) if head.count > MAX_PUBLICATIONS else head


def _advance_resource(head: LedgerHead, alias: str, mark: Mark) -> LedgerHead:
    reach = head.reaches.get(alias)
    if reach is None:
        return _append(head, alias, PublishedExtent(mark.epoch, 0, head.end), mark.sequence)
    if mark.epoch > reach.epoch:
        voided = replace(head, void=head.end + 1)
        return _append(voided, alias, PublishedExtent(mark.epoch, 0, head.end), mark.sequence)
    if mark.epoch < reach.epoch or mark.sequence <= reach.upto:
        return head
    return _append(head, alias, reach, mark.sequence)


def _append(head: LedgerHead, alias: str, reach: PublishedExtent, upto: int) -> LedgerHead:
    """Publish the changes of a resource after `reach`, up to a sequence."""
    added = Publication(alias, reach.upto, upto, head.end)
    before = head.publications
    if before and (before[-1].alias, before[-1].upto) == (alias, added.after):
        before, added = before[:-1], replace(before[-1], upto=upto)
    return replace(
        head,
        end=added.end,
        reaches=head.reaches | {alias: replace(reach, upto=upto)},
        publications=(*before, added) if added.upto > added.after else before,
    )


def _republish_all(head: LedgerHead) -> LedgerHead:
    """Republish everything, and drop all earlier publications."""
    fresh = replace(head, first=head.archived, publications=())
    for alias, reach in head.reaches.items():
        fresh = _append(fresh, alias, PublishedExtent(reach.epoch, 0, fresh.end), reach.upto)
    return fresh


# The id of the document.
TOKEN_KEYS_ID = "token-keys"  # noqa: S105 - an id
# For AES-SIV with two keys of 256 bits.
_SECRET_BYTES = 64
_KEY_ID_BYTES = 4
# Of five keys the oldest was replaced at least 360 days ago: longer than tombstones, without which tokens expire.
_KEPT_KEYS = 5
_KEY_SECONDS = 90 * 86_400


class TokenKey(msgspec.Struct, frozen=True):
    """One key: a random id in 8 hexadecimal digits, the secret, and when it was made, in seconds since 1970."""

    id: str
    secret: bytes
    created: int


class TokenKeys(msgspec.Struct, frozen=True):
    """All keys, the newest first. It seals; the earlier ones still open tokens, until they are dropped."""

    keys: tuple[TokenKey, ...] = ()


def renewed_keys(present: TokenKeys, now: float) -> TokenKeys | None:
    """Return the keys with a new one if the newest is due for replacement, else None."""
    if present.keys and now - present.keys[0].created < _KEY_SECONDS:
        return None
    added = TokenKey(secrets.token_hex(_KEY_ID_BYTES), secrets.token_bytes(_SECRET_BYTES), int(now))
    return TokenKeys((added, *present.keys[: _KEPT_KEYS - 1]))


async def ensure_token_keys(client: AsyncElasticsearch, control_index: str) -> None:
    """Create the first key in the control index, or a new one if the newest is due for replacement."""
    try:
        response = await client.get(index=control_index, id=TOKEN_KEYS_ID)
    except NotFoundError:
        present = TokenKeys()
        condition: dict[str, Any] = {"op_type": "create"}
    else:
        present = msgspec.convert(response["_source"], TokenKeys)
        condition = {"if_seq_no": response["_seq_no"], "if_primary_term": response["_primary_term"]}
    if (renewed := renewed_keys(present, time.time())) is None:
        return
    try:
        await client.index(
            index=control_index, id=TOKEN_KEYS_ID, document=msgspec.to_builtins(renewed), refresh=True, **condition
        )
    except ConflictError:
        return  # a concurrent run was faster


UUID_SETTING, HISTORY_SETTING = "index.uuid", "index.history.uuid"


def index_identity(settings: Mapping[str, Any]) -> str:
    """Return the identity of an index by its flat settings, empty if they lack the UUID.

    It changes when the index is restored from a snapshot or replaced by hand. An index that is restored under a free
    name gets a new UUID. One that is restored over a closed index keeps its UUID and gets a new history UUID, a setting
    that other indices lack.
    """
    parts = (settings.get(UUID_SETTING), settings.get(HISTORY_SETTING))
    return ":".join(part for part in parts if part)


def is_another(known: str, stored: str) -> bool:
    """Whether two identities are those of different indices; an unknown one differs from none."""
    return bool(known and stored) and known != stored
