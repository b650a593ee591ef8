"""Lines near the edges of what a source may send: some are valid, some are normalized, some are refused."""

import copy
from collections.abc import Iterator
from typing import Any

import orjson
from hypothesis import strategies as st

from mappings import RESOURCES, Resource
from mappings.fields import Field, FieldKind
from tests.records import envelope

Path = tuple[str | int, ...]

ANYTHING: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 3, 0.5, "", "text", [], {}, [None], ["text"], [{}], {"a": [1, {}]}]
)
MOMENTS = st.builds(
    "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{}{}".format,
    st.sampled_from([0, 1, 999, 1900, 1970, 2000, 2023, 2024, 2026, 9999]),
    *(st.integers(1, 12) | st.integers(0, 13), st.integers(28, 31) | st.integers(0, 32)),
    *(st.integers(0, 24), st.integers(0, 59), st.integers(0, 60)),
    st.sampled_from(["", ".1", ".123456789"]) | st.sampled_from([".", ".1234567890"]),
    st.sampled_from(["Z", "-08:00", "+23:59"]) | st.sampled_from(["+24:00", "-12:60", "", "+0800", "z"]),
)
WHOLE = [0, -1, 2**53, 2**53 + 1, -(2**53), -(2**53) - 1, 2**64, 10**30]
NUMBERS = st.sampled_from([*WHOLE, 3.0, -0.0, 0.25, 0.5, -0.5, 2.5, 2.0**53, 1e16, -1e300, 1e22])
VALUES = {
    FieldKind.INTEGER: NUMBERS,
    FieldKind.NUMBER: NUMBERS,
    FieldKind.UNIX: NUMBERS,
    FieldKind.DATE_TIME: MOMENTS,
    FieldKind.DATE: st.sampled_from(["2024-02-29", "2023-02-29", "0000-01-01", "9999-12-31"]) | MOMENTS,
    FieldKind.STRING: st.sampled_from(["\t", "\n", '"', "é", "\\u0000"]),
}
ENVELOPES = {
    "updated_at": MOMENTS,
    "deleted": st.booleans() | st.none(),
    "platform_company_id": st.sampled_from(["4100", "other", "unheard", None]),
    "property_type_id": st.sampled_from([1, 2, -1, 99, None]),
    "deactivated_at": MOMENTS,
    "Status": st.sampled_from(["SOLD", "Active", "unheard"]),
}


def _members(resource: Resource) -> list[tuple[Path, FieldKind]]:
    """Return the place and kind of every member of an envelope's record, nested ones included."""
    return [(("record", *path), kind) for path, kind in _paths(resource.stored)]


def _paths(fields: tuple[Field, ...]) -> Iterator[tuple[Path, FieldKind]]:
    for field in fields:
        yield (field.name,), field.kind
        inside: Path = (field.name, 1) if field.kind is FieldKind.OBJECTS else (field.name,)
        for path, kind in _paths(field.members):
            yield (*inside, *path), kind


@st.composite
def envelopes(draw: st.DrawFn) -> tuple[Resource, bytes]:
    """Return a resource and a line of it: a valid one with up to three changes, some of them none at all."""
    resource = draw(st.sampled_from(RESOURCES))
    changed = copy.deepcopy(envelope(resource))
    for path, kind in draw(st.lists(st.sampled_from(_members(resource)), max_size=3)):
        _put(changed, path, draw(VALUES.get(kind, ANYTHING) | st.none() | ANYTHING))
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(sorted(ENVELOPES)))
        _put(changed, ("record", name) if name == "Status" else (name,), draw(ENVELOPES[name]))
    return resource, orjson.dumps(changed) if draw(st.integers(0, 20)) else orjson.dumps(changed)[:-1]


def _put(changed: Any, path: Path, value: object) -> None:
    """Change one member where the way to it is still there; integers beyond 64 bits are written by their digits."""
    for step in path[:-1]:
        try:
            changed = changed[step]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(changed, dict):
        is_long = isinstance(value, int) and abs(value) >= 2**64
        changed[path[-1]] = orjson.Fragment(str(value)) if is_long else copy.deepcopy(value)
