"""Copies of a record in two shards: each reader sees one."""

import pytest

from mappings.shards import Interval, hidden_query, hide, read_intervals
from mappings.stored_document import encode_document, replace_stamp, stored_feed_key

HEAD = b'{"id":"1","feed_key":"acme:\\"1\\\\","company":"acme"'
# A record may look like a document.
RECORD = b'{"a":[1,"hidden"],"hidden":[7],"left":true,"clock":1,"feed_key":"b:2"}'
STORED = encode_document(HEAD, 5, 6, RECORD)


def test_intervals_are_members_before_the_stamp() -> None:
    """They replace earlier ones; the record keeps its bytes."""
    left = hide(STORED, [Interval(None, 3), Interval(9, None)], has_left=True)
    assert left == encode_document(HEAD + b',"hidden":[{"lt":3},{"gte":9}],"left":true', 5, 6, RECORD)
    back = hide(left, [Interval(3, 9)])
    assert back == encode_document(HEAD + b',"hidden":[{"gte":3,"lt":9}]', 5, 6, RECORD)
    assert hide(back, []) == STORED
    assert hide(STORED, []) == STORED


def test_a_new_stamp_keeps_the_intervals() -> None:
    """As when a move is published again."""
    assert replace_stamp(hide(STORED, [Interval(None, 6)]), 7, 8) == hide(
        replace_stamp(STORED, 7, 8), [Interval(None, 6)]
    )


def test_values_of_the_field_are_intervals() -> None:
    assert read_intervals([{"lt": 3}, {"gte": 4, "lt": 9}, {"gte": 12}]) == ((None, 3), (4, 9), (12, None))
    assert hidden_query(4) == {"term": {"hidden": 4}}


def test_the_feed_key_is_read_from_the_search_fields() -> None:
    """Not from a record that looks like a document."""
    assert stored_feed_key(STORED) == 'acme:"1\\'
    with pytest.raises(ValueError, match="no feed key"):
        stored_feed_key(encode_document(b'{"id":"1"', 5, 6, RECORD))
