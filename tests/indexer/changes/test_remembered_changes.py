"""What a document remembers of its record: which groups of fields changed at which sequence, and what they were."""

from typing import Any

import pytest
from msgspec import structs

from indexer.changes.stamps import remember
from indexer.documents.builder import PendingDocument, tombstone_document
from indexer.scan import IndexRow
from mappings import LISTING, RESOURCES, Resource
from mappings.fields import FieldKind
from mappings.history import decode_past
from mappings.stored_document import (
    CREATION,
    TombstoneReason,
    change_number,
    feed_key,
    reopened_changes,
    replace_stamp,
    split_change,
    stamped_changes,
)
from tests.indexer.parsed_lines import parse_line
from tests.records import envelope

NAMES = {number: group.name for number, group in LISTING.change_groups.items()} | {CREATION: "created"}


(PRICE,) = (number for number, name in NAMES.items() if name == "price")


def given(resource: Resource = LISTING, /, **record: Any) -> PendingDocument:
    return parse_line(resource, envelope(resource, record))


def row(document: PendingDocument, sequence: int) -> IndexRow:
    """Return a document as it is indexed under a stamp of which the clock is a thousand times the sequence."""
    return IndexRow(
        document.id,
        feed_key(document.company, document.id),
        document.version,
        document.content,
        sequence * 1000,
        sequence,
        document.is_tombstone,
        None,
        document.version,
        stamped_changes(document.changed, sequence),
        document.past,
    )


def following(
    document: PendingDocument, known: IndexRow, before: PendingDocument, resource: Resource = LISTING
) -> PendingDocument:
    """Return a document as it is written over the one before, which the index has as `known`."""
    past, changed = remember(resource, document, parts(document), known, parts(before))
    return structs.replace(document, past=past, changed=changed)


def parts(document: PendingDocument) -> tuple[bytes, bytes]:
    return document.head, document.record or b""


def changes(document: PendingDocument, sequence: int) -> dict[str, int]:
    numbers = map(split_change, stamped_changes(document.changed, sequence))
    return {NAMES[group]: at for group, at in numbers}


def history(*records: dict[str, Any]) -> list[PendingDocument]:
    """Return the states of a record, each compared with the one before; the sequences count from 1."""
    states: list[PendingDocument] = []
    for record in records:
        document = given(**record)
        states.append(following(document, row(states[-1], len(states)), states[-1]) if states else document)
    return states


def test_each_group_keeps_the_sequence_of_its_last_change() -> None:
    states = history(
        {"ListPrice": 1}, {"ListPrice": 2}, {"ListPrice": 2, "PublicRemarks": "new"}, {"ListPrice": 3, "YearBuilt": 4}
    )
    assert [changes(state, at) for at, state in enumerate(states, start=1)] == [
        {"created": 1},
        {"created": 1, "price": 2},
        {"created": 1, "price": 2, "remarks": 3},
        {"created": 1, "price": 4, "remarks": 4, "details": 4},
    ]


def test_the_values_before_the_last_change_and_the_first_clock_are_kept() -> None:
    *_, last = history(
        {"ListPrice": 1, "Status": "Active"},
        {"ListPrice": 2, "Status": "Active"},
        {"ListPrice": 3, "Status": "Pending"},
        {"ListPrice": 3, "Status": "Pending", "City": "Elsewhere"},
    )
    past = decode_past(last.past)
    assert past is not None
    assert past.first_seen == 1000
    assert {NAMES[one.group]: past.before(one.group) for one in past.changes} == {
        "price": {0: 2},
        "status": {0: "Active"},
    }


def test_a_value_is_forgotten_if_the_last_change_of_its_group_did_not_change_it() -> None:
    *_, last = history(
        {"Status": "Active", "StatusChangeDate": "2026-01-01"},
        {"Status": "Pending", "StatusChangeDate": "2026-01-02"},
        {"Status": "Pending", "StatusChangeDate": "2026-01-03"},
    )
    assert changes(last, 3) == {"created": 1, "status": 3}
    past = decode_past(last.past)
    assert past is not None
    assert [past.before(number) for number in LISTING.change_groups] == [{} for _ in LISTING.change_groups]


def test_the_same_content_keeps_everything() -> None:
    first, second, third = history({"ListPrice": 1}, {"ListPrice": 2}, {"ListPrice": 2, "DaysOnMarket": 9})
    assert (third.past, changes(third, 2)) == (second.past, changes(second, 2))
    assert first.past != second.past


@pytest.mark.parametrize("how", ["deleted", "of another company", "of an earlier version"])
def test_a_record_that_cannot_be_compared_is_new(how: str) -> None:
    document = given(ListPrice=1)
    known = row(document, 1)
    others: dict[str, IndexRow] = {
        "deleted": row(tombstone_document(known.id, known.company, 1, TombstoneReason.DELETED), 1),
        "of another company": structs.replace(known, feed_key=f"other:{known.id}"),
        "of an earlier version": structs.replace(known, changed=()),
    }
    again = following(history({"ListPrice": 5}, {"ListPrice": 2})[-1], others[how], document)
    assert changes(again, 7) == {"created": 7}
    assert again.past == ""


def test_a_pending_stamp_takes_what_changed_with_it_and_leaves_what_was_published() -> None:
    source = history({"ListPrice": 1}, {"ListPrice": 2})[-1].stamped_source(0, 2**62 + 5)
    stamped = replace_stamp(source, 9, 9)
    assert b'"changed":[1,%d]' % change_number(PRICE, 9) in stamped
    assert b'"changed":[1,%d]' % change_number(PRICE, 9) in replace_stamp(stamped, 10, 10)
    assert b'"changed":[1,%d]' % change_number(PRICE, 10) in replace_stamp(stamped, 10, 10, reopened_changes(stamped))


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_every_member_that_counts_as_content_is_in_one_group(resource: Resource) -> None:
    groups = resource.change_groups.values()
    named = [name for group in groups for name in group.members]
    assert sorted(named) == sorted({field.name for field in resource.stored} - resource.volatile)
    known = {field.name for field in resource.search_fields}
    assert {name for group in groups for name in group.search_fields} <= known


def test_no_two_groups_have_the_same_number() -> None:
    groups = {(group.name, group.number) for resource in RESOURCES for group in resource.change_groups.values()}
    assert len({name for name, _ in groups}) == len({number for _, number in groups})


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_a_change_of_any_member_is_one_of_its_group(resource: Resource) -> None:
    """A group that a key may not see, above all: another must not be named for it."""
    for number, group in resource.change_groups.items():
        for name in group.members:
            field = next(field for field in resource.stored if field.name == name)
            if name == resource.identifier or field.kind not in {FieldKind.STRING, FieldKind.INTEGER} or field.form:
                continue
            if name in {"Status", "PropertyType"}:  # of a few words
                continue
            values = ("1", "2") if field.kind is FieldKind.STRING else (1, 2)
            before, after = (given(resource, **{name: value}) for value in values)
            if before.content == after.content:  # the source's words are mapped to a few
                continue
            changed = following(after, row(before, 1), before, resource).changed
            assert {split_change(each)[0] for each in changed} == {CREATION, number}, name
