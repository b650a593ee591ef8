"""Ranges and preconditions, header by header."""

import pytest
from multidict import CIMultiDict

from service.exports.publications import PreconditionFailed, RangeNotSatisfiable, requested_slice

TAG, SIZE = '"abc"', 100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bytes=0-", (206, 0, 100)),
        ("bytes=10-19", (206, 10, 10)),
        ("bytes=99-", (206, 99, 1)),
        ("bytes=90-1000", (206, 90, 10)),
        ("bytes=-30", (206, 70, 30)),
        ("bytes=-1000", (206, 0, 100)),
        ("Bytes=5-5", (206, 5, 1)),
        ("", (200, 0, 100)),
        ("bytes=-", (200, 0, 100)),
        ("bytes=20-10", (200, 0, 100)),
        ("bytes=0-1,5-6", (200, 0, 100)),
        ("items=0-1", (200, 0, 100)),
        ("bytes=٣-", (200, 0, 100)),
        ("bytes=" + "9" * 40 + "-", (200, 0, 100)),
    ],
)
def test_a_range_is_sent_and_what_is_none_is_ignored(text: str, expected: tuple[int, int, int]) -> None:
    assert requested_slice(CIMultiDict({"Range": text}), TAG, SIZE)[:3] == expected


@pytest.mark.parametrize("text", ["bytes=100-", "bytes=100-200", "bytes=-0"])
def test_a_range_outside_of_the_file_is_refused_with_its_size(text: str) -> None:
    with pytest.raises(RangeNotSatisfiable) as refused:
        requested_slice(CIMultiDict({"Range": text}), TAG, SIZE)
    assert refused.value.headers == {"Content-Range": "bytes */100"}


def test_a_range_of_an_empty_file_is_refused() -> None:
    with pytest.raises(RangeNotSatisfiable):
        requested_slice(CIMultiDict({"Range": "bytes=-5"}), TAG, 0)


@pytest.mark.parametrize(("tag", "status"), [(TAG, 206), ('"other"', 200), (f"W/{TAG}", 200), ("yesterday", 200)])
def test_a_range_of_another_file_is_not_mixed_with_this_one(tag: str, status: int) -> None:
    assert requested_slice(CIMultiDict({"Range": "bytes=5-", "If-Range": tag}), TAG, SIZE).status == status


@pytest.mark.parametrize(
    ("tags", "status"), [(TAG, 304), (f"W/{TAG}", 304), (f'"x", {TAG}', 304), ("*", 304), ('"x"', 206), ("", 206)]
)
def test_a_client_that_has_the_file_gets_nothing(tags: str, status: int) -> None:
    assert requested_slice(CIMultiDict({"Range": "bytes=5-", "If-None-Match": tags}), TAG, SIZE).status == status


@pytest.mark.parametrize(("tags", "passes"), [(TAG, True), (f'"x", {TAG}', True), ("*", True), (f"W/{TAG}", False)])
def test_a_precondition_compares_strongly(tags: str, *, passes: bool) -> None:
    headers = CIMultiDict({"If-Match": tags})
    if passes:
        assert requested_slice(headers, TAG, SIZE).status == 200
    else:
        with pytest.raises(PreconditionFailed):
            requested_slice(headers, TAG, SIZE)
