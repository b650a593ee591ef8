"""The typed records of the client are those of the declarations, and real records decode into them."""

import json
from pathlib import Path

import msgspec
import pytest

from brokerage_feed import records
from mappings import RESOURCES, Resource
from mappings.record_schema import record_type
from sample import write_source
from tests.consumer.typed_records import FILE, render_module


def test_the_module_is_as_the_declarations_generate_it() -> None:
    assert FILE.read_text(encoding="utf-8") == render_module()


def test_the_names_are_those_of_the_feed_in_its_order() -> None:
    assert tuple(resource.alias for resource in RESOURCES) == records.RESOURCE_NAMES


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of generated records."""
    folder = tmp_path_factory.mktemp("typed")
    write_source(folder, 30)
    return folder


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_records_decode_into_their_type(source: Path, resource: Resource) -> None:
    decoder = msgspec.json.Decoder(getattr(records, resource.name))
    # A source may leave members out; the service sends each of them.
    stored = msgspec.json.Decoder(record_type(resource))
    lines = (source / f"{resource.alias}.ndjson").read_bytes().splitlines()
    for line in lines:
        sent = msgspec.json.encode(stored.decode(json.dumps(json.loads(line)["record"])))
        typed = decoder.decode(sent)
        assert typed.keys() <= json.loads(sent).keys()
        assert typed.keys() == {*getattr(records, resource.name).__annotations__}
    assert lines
