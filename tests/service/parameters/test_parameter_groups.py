"""The usual page of each index, which its parameters themselves say (decisions, Page size)."""

import pytest

from service.resources import OPERATIONS

USUAL = {"/listings": 200, "/sold_listings": 200, "/agents": 100, "/offices": 100, "/teams": None, "/companies": None}
SIZES = {
    operation.path: operation.schema.fields["page_size"]
    for operation in OPERATIONS
    if "page_size" in operation.schema.fields
}


def test_every_index_has_pages_of_its_usual_size() -> None:
    assert {path: SIZES[path].load_default for path in USUAL} == USUAL


@pytest.mark.parametrize("path", USUAL)
def test_the_description_names_it(path: str) -> None:
    assert str(USUAL[path] or 100) in SIZES[path].metadata["description"]
