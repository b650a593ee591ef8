"""What a mirror sends: the same until it changes, a higher version afterwards, however often killed."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from indexer.reso.mapping.record_mapper import RecordMapper
from indexer.reso.mirror import Mirror
from indexer.reso.outbox import Outbox, SentLog
from indexer.reso.source_map import ReplicationPlan
from indexer.source.lines import RejectedLine
from mappings import AGENT, COMPANY, LISTING, SOLD_LISTING, Resource
from mappings.data_dictionary import load_dictionary
from tests.reso.expected_index import ACME
from tests.reso.replication_bench import COMPANY_RECORD

DICTIONARY = load_dictionary()
STAMP = "2026-03-02T08:00:00.000Z"
HOME = {"ListingKey": "K", "ModificationTimestamp": STAMP, "StandardStatus": "Active", "PropertyType": "Residential"}
PERSON = {"MemberKey": "M", "ModificationTimestamp": STAMP, "MemberFullName": "Ann Lee", "OfficeKey": "O"}


class OpenOutbox:
    """An open mirror with its outbox."""

    def __init__(self, mirror: Mirror, *, is_sole: bool = False, future_seconds: float = 86_400.0) -> None:
        self.mirror = mirror
        plan = ReplicationPlan("https://mls.example.com", ACME, DICTIONARY, COMPANY_RECORD, is_sole=is_sole)
        self.outbox = Outbox(mirror, plan, RecordMapper(DICTIONARY, mirror), future_seconds)

    def put(self, entity: str, record: dict[str, Any], **changes: object) -> bool:
        record = record | changes
        key = str(record[DICTIONARY.entities[entity].key])
        with self.mirror.transaction():
            return self.mirror.put(entity, key, str(record.get("ModificationTimestamp")), record)

    def remove(self, entity: str, key: str) -> None:
        with self.mirror.transaction():
            self.mirror.remove(entity, key)

    def due(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return what would be sent to an update, by resource and identifier, without the company."""
        with self.outbox.changes() as feed:
            said = [
                entity for entity in feed.lines if not isinstance(entity, RejectedLine) and entity[0] is not COMPANY
            ]
        decoded = [(resource, msgspec.json.decode(line.data)) for resource, line in said]
        return {(resource.alias, row["record"][resource.identifier]): row for resource, row in decoded}

    def faults(self) -> list[RejectedLine]:
        with self.outbox.changes() as feed:
            return [value for value in feed.lines if isinstance(value, RejectedLine)]

    def everything(self, resource: Resource) -> list[tuple[int, bytes]]:
        with self.outbox.open(resource) as reading:
            return [(value.number, value.data) for value in reading.lines]

    def settle(self) -> None:
        with self.mirror.transaction():
            self.mirror.clear_due(self.mirror.last_change)
            self.outbox.mark_published()


@contextmanager
def open_outbox(folder: Path, **options: Any) -> Iterator[OpenOutbox]:
    mirror = Mirror(folder / "mirror.sqlite", DICTIONARY)
    try:
        yield OpenOutbox(mirror, **options)
    finally:
        mirror.close()


def test_unconfirmed_records_are_sent_again_unchanged(tmp_path: Path) -> None:
    with open_outbox(tmp_path) as run:
        run.put("Property", HOME)
        first = run.due()
        assert first["listings", "K"]["updated_at"] == "2026-03-02T08:00:00.000000Z"
    with open_outbox(tmp_path) as run:  # as after a kill
        assert run.due() == first
        # The source moves its time back, or not at all: what is said is newer all the same.
        run.put("Property", HOME, ModificationTimestamp="2026-03-01T08:00:00.000Z", PublicRemarks="Other")
        second = run.due()
        assert second["listings", "K"]["updated_at"] == "2026-03-02T08:00:00.000001Z"
        run.settle()
        assert run.due() == {}
    with open_outbox(tmp_path) as run:
        assert run.due() == {}
        assert not run.put("Property", HOME, ModificationTimestamp="2026-03-01T08:00:00.000Z", PublicRemarks="Other")
        assert run.due() == {}


def test_a_transaction_that_is_not_ended_leaves_nothing(tmp_path: Path) -> None:
    with open_outbox(tmp_path) as run:
        run.put("Property", HOME)
        changes, due = run.mirror.last_change, run.mirror.count("due")
        with pytest.raises(KeyboardInterrupt), run.mirror.transaction():  # noqa: PT012 - what is undone
            run.mirror.put("Property", "K", STAMP, HOME | {"City": "Elsewhere"})
            run.mirror.put("Property", "L", STAMP, HOME | {"ListingKey": "L"})
            run.mirror.write_note("n", 1)
            raise KeyboardInterrupt
        assert (run.mirror.last_change, run.mirror.count("due"), run.mirror.read_note("n")) == (changes, due, None)
        assert run.mirror.keys("Property", "", 9) == ["K"]
        assert run.mirror.record("Property", "K") == HOME
    with open_outbox(tmp_path) as run:
        assert run.mirror.last_change == changes


def test_a_record_that_changes_while_it_is_sent_stays_due(tmp_path: Path) -> None:
    with open_outbox(tmp_path) as run:
        run.put("Property", HOME)
        change = run.mirror.last_change
        run.due()
        run.put("Property", HOME, City="Elsewhere")
        with run.mirror.transaction():
            run.mirror.clear_due(change)
        assert run.due()["listings", "K"]["record"]["City"] == "Elsewhere"
        run.settle()
        # The very next change, too.
        run.put("Property", HOME, ListingKey="new")
        change = run.mirror.last_change
        run.put("Property", HOME, ListingKey="newer")
        with run.mirror.transaction():
            run.mirror.clear_due(change)
        assert [key for _, key in run.due()] == ["newer"]


def test_a_record_that_leaves_and_returns_gets_a_higher_version_each_time(tmp_path: Path) -> None:
    said: list[tuple[bool, str]] = []
    for is_there in (True, False, False, True, False, True):
        with open_outbox(tmp_path) as run:  # a kill behind each
            if is_there:
                run.put("Property", HOME)
            else:
                run.remove("Property", "K")
            reported = run.due()["listings", "K"]
            said.append((reported.get("deleted", False), reported["updated_at"]))
    assert [deleted for deleted, _ in said] == [False, True, True, False, True, False]
    assert said[1] == said[2]  # nothing new to say
    times = [at for _, at in said]
    assert sorted(set(times)) == list(dict.fromkeys(times))


def test_a_listing_is_sold_and_returns(tmp_path: Path) -> None:
    with open_outbox(tmp_path) as run:
        states = []
        for status in ("Active", "Closed", "Active", "Delete"):
            run.put("Property", HOME, StandardStatus=status)
            states.append({alias: row.get("deleted", False) for (alias, _), row in run.due().items()})
            run.settle()
        assert states == [
            {"listings": False},
            {"listings": True, "sold_listings": False},
            {"listings": False, "sold_listings": True},
            {"listings": True, "sold_listings": True},
        ]


def test_a_fault_is_reported_once_and_for_sold_listings_too(tmp_path: Path) -> None:
    long = "k" * 200
    with open_outbox(tmp_path) as run:
        for status in ("Active", "Closed"):
            run.put("Property", HOME, ListingKey=long, StandardStatus=status)
            (fault,) = run.faults()
            assert (fault.error.field, fault.resource) == (
                "ListingKey",
                LISTING if status == "Active" else SOLD_LISTING,
            )
            run.settle()


def test_lines_are_numbered_alike_in_every_pass_and_run(tmp_path: Path) -> None:
    """A killed build resumes after a number."""
    keys = [f"K{number}" for number in range(7)]
    with open_outbox(tmp_path) as run:
        for key in keys:
            run.put("Property", HOME, ListingKey=key)
        run.put("Member", PERSON)
        passes = [run.everything(resource) for resource in (COMPANY, LISTING, AGENT, LISTING, COMPANY)]
        assert [number for number, _ in passes[1]] == [1, 2, 3, 4, 5, 6, 7]
        assert passes[1] == passes[3]
        assert passes[0] == passes[4]
        identity = run.outbox.identity(LISTING)
    with open_outbox(tmp_path) as run:
        assert run.everything(LISTING) == passes[1]
        assert run.outbox.identity(LISTING) == identity
        run.put("Property", HOME, City="Elsewhere")
        assert run.outbox.identity(LISTING) != identity


PHOTO = {"MediaKey": "P", "ModificationTimestamp": STAMP, "ResourceName": "Property", "ResourceRecordKey": "K"}
LINK = {"TeamMemberKey": "L", "ModificationTimestamp": STAMP, "MemberKey": "M", "TeamKey": "T"}
OFFICE = {"OfficeKey": "O", "ModificationTimestamp": STAMP, "OfficeName": "One"}
TEAM = {"TeamKey": "T", "ModificationTimestamp": STAMP, "TeamName": "Team"}
OPEN = {"OpenHouseKey": "H", "ModificationTimestamp": STAMP, "ListingKey": "K"}


@pytest.mark.parametrize(
    ("entity", "record", "changes", "due"),
    [
        ("Media", PHOTO, {"MediaURL": "https://media.example.com/1"}, {"Property K"}),
        ("Media", PHOTO, {"ResourceRecordKey": "K2"}, {"Property K", "Property K2"}),
        ("Media", PHOTO, {"ResourceName": "Member", "ResourceRecordKey": "M"}, {"Property K", "Member M"}),
        ("OpenHouse", OPEN, {"ListingKey": "K2"}, {"Property K", "Property K2"}),
        ("Office", OFFICE, {"OfficeName": "Two"}, {"Office O", "Member M"}),
        ("Teams", TEAM, {"TeamName": "Other"}, {"Teams T", "Member M"}),
        ("TeamMembers", LINK, {"MemberKey": "M2"}, {"Member M", "Member M2"}),
        ("Member", PERSON, {"MemberFullName": "Ann May"}, {"Member M"}),
        ("Property", HOME, {"City": "Elsewhere"}, {"Property K"}),
    ],
)
def test_what_a_change_reaches_is_due(
    tmp_path: Path, entity: str, record: dict[str, Any], changes: dict[str, str], due: set[str]
) -> None:
    """Changed, then removed, then there again."""
    with open_outbox(tmp_path) as run:
        every = [("Property", HOME), ("Property", HOME | {"ListingKey": "K2"}), ("Member", PERSON)]
        every += [("Member", PERSON | {"MemberKey": "M2", "OfficeKey": "O2"}), ("Media", PHOTO), ("TeamMembers", LINK)]
        every += [("Office", OFFICE), ("Teams", TEAM), ("OpenHouse", OPEN)]
        for name, item in reversed(every):  # parts before what they are part of
            run.put(name, item)
        run.settle()
        assert not run.put(entity, record)
        assert _due(run) == set()
        run.put(entity, record | changes)
        assert _due(run) == due
        run.settle()
        run.put(entity, record)
        assert _due(run) == due
        run.settle()
        run.remove(entity, str(record[DICTIONARY.entities[entity].key]))
        # Of what it was before the change, which it is again.
        own = {value for value in due if not value.endswith("2") and not _only_new(entity, value)}
        assert _due(run) == own
        run.settle()
        run.put(entity, record)
        assert _due(run) == own


def _only_new(entity: str, due: str) -> bool:
    return entity == "Media" and due == "Member M"


def _due(run: OpenOutbox) -> set[str]:
    return {f"{entity} {key}" for entity in DICTIONARY.entities for key in run.mirror.due_keys(entity, "", 99)}


def test_everything_is_sent_again_removals_and_the_company_included(tmp_path: Path) -> None:
    with open_outbox(tmp_path) as run:
        run.put("Property", HOME)
        run.put("Property", HOME, ListingKey="gone")
        run.everything(COMPANY)
        run.due()
        run.remove("Property", "gone")
        run.due()
        run.settle()
        with run.mirror.transaction():
            run.mirror.mark_all_due()
        again = run.due()
        assert {identifier: row.get("deleted", False) for (_, identifier), row in again.items()} == {
            "K": False,
            "gone": True,
        }


def test_what_the_index_had_is_overruled_and_what_only_it_had_goes_with_a_sole_source(tmp_path: Path) -> None:
    later = 1_900_000_000_000_000
    with open_outbox(tmp_path, future_seconds=math.inf) as run:
        with run.mirror.transaction():
            found = SentLog(run.mirror)
            found.store_indexed("listings", [("K", later, False), ("sold", later, False), ("only", later, False)])
            found.store_indexed("listings", [("deleted", later, True)])
        run.put("Property", HOME)
        run.put("Property", HOME, ListingKey="sold", StandardStatus="Closed")
        reported = run.due()
        assert reported["listings", "K"]["updated_at"] == "2030-03-17T17:46:40.000001Z"
        # The source has it, and has it as something else.
        assert reported["listings", "sold"]["deleted"] is True
        assert reported["listings", "sold"]["updated_at"] == "2030-03-17T17:46:40.000001Z"
        assert reported.keys() == {("listings", "K"), ("listings", "sold"), ("sold_listings", "sold")}
        run.settle()
        run.remove("Property", "K")
    with open_outbox(tmp_path, is_sole=True) as run:
        assert run.outbox.has_unqueued_changes
        assert {key for key, row in run.due().items() if row.get("deleted")} == {
            ("listings", "K"),
            ("listings", "only"),
        }
        run.settle()
        assert run.due() == {}


def test_versions_that_a_run_under_a_wrong_clock_has_sent_do_not_count(tmp_path: Path) -> None:
    later = 1_900_000_000_000_000
    with open_outbox(tmp_path) as run:

        def send_ahead() -> None:
            sent = SentLog(run.mirror).last("listings", "K")
            assert sent is not None
            with run.mirror.transaction():
                SentLog(run.mirror).store("listings", "K", sent._replace(updated_at=later))

        run.put("Property", HOME)
        run.due()
        send_ahead()
        with run.mirror.transaction():
            SentLog(run.mirror).store_indexed("listings", [("gone", later, False)])
        assert run.due()["listings", "K"]["updated_at"] == STAMP.replace("Z", "000Z")
        send_ahead()
        run.remove("Property", "K")
        assert run.due()["listings", "K"]["updated_at"] < "2030"
    with open_outbox(tmp_path, is_sole=True) as run:
        assert all(line["updated_at"] < "2030" for line in run.due().values())


def test_a_deactivation_from_the_future_is_as_of_the_change(tmp_path: Path) -> None:
    with open_outbox(tmp_path) as run:
        run.put("Member", PERSON, MemberStatus="Inactive", ModificationTimestamp="2099-01-01T00:00:00.000Z")
        sent = run.due()
        ((_, agent),) = sent.items()
        assert agent["deactivated_at"] == agent["updated_at"] < "2099"
        assert run.due() == sent
