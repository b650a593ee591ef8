"""What a parsed line leaves in memory: nothing, since a load has billions of them and an update no end."""

import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.source.lines import SourceLine
from mappings import RESOURCES, Resource
from tests.indexer.parsed_lines import COMPANIES
from tests.records import deletion, envelope, record

LINES = 200
FORMS: dict[str, Callable[[Resource], dict[str, Any]]] = {
    "valid": envelope,
    "rejected": lambda resource: envelope(resource, {"UnknownMember": 1}),
    "deleted": lambda resource: deletion(resource, record(resource)[resource.identifier]),
}


def _left_by(work: Callable[[], None]) -> Counter[str]:
    """Return how many objects more the garbage collector knows after some work, by type."""
    gc.collect()
    before = Counter(type(known).__name__ for known in gc.get_objects())
    work()
    gc.collect()
    return Counter(type(known).__name__ for known in gc.get_objects()) - before


@pytest.mark.parametrize("form", FORMS)
def test_a_parsed_line_leaves_no_object_behind(form: str) -> None:
    """Lines of all resources together: to count the objects of a process takes longer than to parse them."""
    lines = {resource: SourceLine("file", 1, orjson.dumps(FORMS[form](resource))) for resource in RESOURCES}
    parsers = {resource: LineParser(resource, COMPANIES) for resource in RESOURCES}

    def parse() -> None:
        for _ in range(LINES):
            for resource, line in lines.items():
                parsers[resource].parse_into(line, chunk := ParsedChunk())
                assert len(chunk.drafts) == (form != "rejected")

    _left_by(parse)  # what is made once
    assert {name: count for name, count in _left_by(parse).items() if count >= LINES // 2} == {}
