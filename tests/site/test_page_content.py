"""What the pages say is what the code does: fields, problems, parameters, bounds, changes, and programs that run."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from mappings import FIELD_GROUPS, RESOURCES
from mappings.fields import Field
from mappings.indices import MAX_RESULT_WINDOW
from mappings.listing import PROPERTY_TYPES
from service.http.requests import MAX_HEAD_BYTES, MAX_HEADER_BYTES, MAX_HEADERS, MAX_PARAMETERS, MAX_URL_BYTES
from service.openapi.schemas import problem_statuses
from service.parameters import MAX_PAGE_SIZE
from service.resources import OPERATIONS
from service.resources.responses import response_of
from service.settings import ServiceSettings, default_burst
from service.site.pages import PAGE_BY_PATH, SitePage
from service.site.rendering import api_changelog, page_text
from service.site.tables import problem_codes
from tests.service.stand_in import refusal
from tests.site.conftest import MARK, RunningService
from tests.site.page_parser import SITE, parse_page

ROOT = Path(__file__).parents[2]


def _text(name: str) -> str:
    (page,) = [page for page in PAGE_BY_PATH.values() if page.name == name]
    return page_text(page, SITE)


@pytest.mark.parametrize("page", PAGE_BY_PATH.values(), ids=lambda page: page.name)
def test_code_is_fenced(page: SitePage) -> None:
    # What is indented instead has no box of its own that scrolls on a narrow screen.
    assert "code_block" not in {token.type for token in MarkdownIt("commonmark").parse(page.text)}


def _names(fields: Sequence[Field], before: str = "") -> Iterator[str]:
    for field in fields:
        yield before + field.name
        yield from _names(field.members, f"{before}{field.name}.")


def _row(resource: str, name: str) -> list[str]:
    """Return the type and the meaning of a field."""
    page = parse_page("/docs/fields")
    fields = [found.split("-", 1) for found in page.ids if found.partition("-")[0] in _ALIASES and "-" in found]
    rows = [row for row in page.rows if len(row) == 4 and row[0] != "Field"]
    assert len(fields) == len(rows)
    return rows[fields.index([resource, name])][1:3]


_ALIASES = {resource.alias for resource in RESOURCES}


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: str(resource.alias))
def test_the_dictionary_has_every_field_in_order(resource: Any) -> None:
    anchors = [name.partition("-") for name in parse_page("/docs/fields").ids]
    assert [path for alias, _, path in anchors if alias == resource.alias and path] == list(_names(resource.fields))


def test_every_field_of_the_dictionary_has_a_sentence_and_an_example() -> None:
    rows = [row for row in parse_page("/docs/fields").rows if len(row) == 4][1:]
    assert [name for name, _, meaning, _ in rows if not meaning.endswith(".") and name != "Field"] == []
    without = {name.partition(".")[0] for name, kind, _, example in rows if not example or example == "null"}
    # Objects have fields of their own.
    assert all(any(name.startswith(f"{one}.") for name, *_ in rows) for one in without - {"Field"})


@pytest.mark.parametrize(
    ("resource", "name", "reported"),
    [
        ("listings", "LotSizeAcres", ["integer", "The size of the lot in acres, rounded half up."]),
        ("listings", "SoldDate", None),
        (
            "listings",
            "StatusChangeDate",
            ["string", "When the status last changed. Given only while on the market. In lists only."],
        ),
        (
            "listings",
            "BuyerCommissionType",
            [
                "string",
                "How the commission offered to the buyer's agent is stated. In lists only. Field group commission.",
            ],
        ),
        (
            "listings",
            "DaysOnMarket",
            ["integer", "The number of days on the market. A change of this field alone does not count as an update."],
        ),
        ("listings", "OpenHouse", ["array of objects", "Open houses, in the local time of the property."]),
        ("listings", "ListingImages.Width", ["integer", "The width in pixels."]),
        ("sold_listings", "SoldDate", ["string, YYYY-MM-DD", "The date of the sale."]),
        ("sold_listings", "ListingURL", ["string", "The page of the listing on the company's website. In lists only."]),
        (
            "agents",
            "bio",
            ["unspecified", "A text about the agent. Present only if include_bio is sent for a list."],
        ),
        (
            "agents",
            "user_reviews",
            ["array", "Ratings and reviews by clients. Present only if include_reviews is sent."],
        ),
        (
            "agents",
            "gci_goal",
            [
                "integer",
                "The goal for gross commission income in a year, in US dollars. In single records only. Present only "
                "if include_gci_goals is sent. Field group goals.",
            ],
        ),
        ("agents", "created_timestamp", ["integer, Unix seconds", "When the source created the agent."]),
    ],
)
def test_the_dictionary_says_what_a_field_is(resource: str, name: str, reported: list[str] | None) -> None:
    if reported is None:
        assert f"{resource}-{name}" not in parse_page("/docs/fields").ids
    else:
        assert _row(resource, name) == reported


def test_the_dictionary_names_every_field_group() -> None:
    rows = {row[0]: row[1] for row in parse_page("/docs/fields").rows if len(row) == 2}
    assert rows.keys() == {"Group", *FIELD_GROUPS}
    assert rows["goals"] == "gci_goal of agents"
    assert rows["partner_data"] == "SharedPartnerData of listings, partners of agents"


def test_every_problem_has_its_section_and_none_else_has() -> None:
    sections = re.findall(r"(?m)^## `(.+)`$", _text("problems"))
    assert sorted(sections) == sorted(problem_codes())
    assert problem_codes().keys() <= {*parse_page("/docs/problems").ids}


def test_the_table_of_problems_is_that_of_the_classes() -> None:
    rows = parse_page("/docs/problems").rows[1:]
    assert [row[:2] for row in rows] == [[str(kind.status), code] for code, kind in problem_codes().items()]


def test_every_problem_says_what_to_do() -> None:
    reported = {code for code in problem_codes() if f"[`{code}`]" in _text("errors")}
    assert {*problem_codes()} - reported == {"refused"}
    assert {str(status) for operation in OPERATIONS for status in problem_statuses(operation)} <= {
        *re.findall(r"\d{3}", _text("errors"))
    }


def test_every_parameter_and_operation_is_explained() -> None:
    reported = {row[0] for row in parse_page("/docs/parameters").rows}
    assert {operation.path for operation in OPERATIONS} <= reported
    for operation in OPERATIONS:
        name = response_of(operation).operation_id.replace("_", "-")
        shown = {row[0] for row in parse_page(f"/docs/reference/{name}").rows if len(row) == 4}
        assert operation.schema.fields.keys() <= shown


def test_the_bounds_are_those_of_the_code() -> None:
    settings, text = ServiceSettings(), _text("limits")
    for said in (
        f"1 to {MAX_PAGE_SIZE:,} |",
        f"the first {MAX_RESULT_WINDOW:,} records",
        f"| {len(PROPERTY_TYPES)} numbers |",
        f"| {MAX_URL_BYTES // 1024} KiB |",
        f"| parameters in a query | {MAX_PARAMETERS} |",
        f"| {MAX_HEADERS}, of {MAX_HEADER_BYTES:,} bytes each, {MAX_HEAD_BYTES:,} bytes in all |",
        f"{settings.key_concurrency} concurrent requests per key",
        f"After {settings.failures_per_minute} of them per minute",
        f"After {settings.refusals_per_minute} rejected requests",
        f"deadline of {settings.deadline_seconds:.0f} seconds",
        f'"burst";q={default_burst(300)};w=10,"minute";q=300;w=60',
    ):
        assert said in text


def test_fields_that_do_not_move_the_clock_are_listed() -> None:
    text = _text("timestamps").partition("Some fields can change")[2]
    for resource in RESOURCES:
        assert all(f"`{name}`" in text for name in resource.volatile)


def test_partners_see_the_changes_that_are_theirs() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for_partners = "".join(re.findall(r"(?ms)^### API\n(.*?)(?=^#|\Z)", changelog))
    entries = re.findall(r"(?m)^- ", api_changelog())
    assert len(entries) == for_partners.count("\n- ") + for_partners.startswith("- ") > 20
    assert "## 1.0.0 - 2026-11-24\n\n- Twelve read operations" in api_changelog()
    assert not re.search(r"BROKERAGE_|decision \d|\*reindex\*|`index ", api_changelog())


def test_pages_are_named_as_their_texts() -> None:
    assert {f"{page.name}.md" for page in PAGE_BY_PATH.values()} == {
        path.name for path in (ROOT / "service/site/text").iterdir()
    }


def _code(name: str, language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", _text(name))


@pytest.mark.parametrize("name", [page.name for page in PAGE_BY_PATH.values()])
def test_what_is_shown_as_json_is_json(name: str) -> None:
    for shown in _code(name, "json"):
        json.loads(shown)


async def test_the_programs_run(served: RunningService, tmp_path: Path) -> None:
    walk, poll = _code("walk", "python")
    walked = await _run(walk, served, tmp_path)
    assert walked == "L1 Active 685000\n"
    # Twice: the second time it begins at the mark of the first.
    for _ in range(2):
        assert await _run(walk.partition("\neverything = ")[0] + "\n" + poll, served, tmp_path) == "upsert L1\n"
    assert (tmp_path / "watermark.txt").read_text() == str(MARK.clock // 1000)
    begins = [str(body["query"]) for path, body in served.stand_in.asked if path == "/listings/_search"]
    assert str(MARK.clock) in begins[-1]


async def test_the_program_waits_and_asks_again(served: RunningService, tmp_path: Path) -> None:
    walk, _ = _code("walk", "python")
    served.stand_in.out(refusal(503, "away"), "listings")
    try:
        process = await _started(walk, served, tmp_path)
        reported = await process.stderr.readline() if process.stderr else b""
    finally:
        served.stand_in.replies.clear()
    printed, _ = await process.communicate()
    assert (process.returncode, printed) == (0, b"L1 Active 685000\n")
    assert b"HTTP Error 503" in reported
    assert served.key.encode() not in reported


async def test_the_program_says_why_a_request_is_rejected(served: RunningService, tmp_path: Path) -> None:
    walk, _ = _code("walk", "python")
    process = await _started(walk, served, tmp_path, company="nobody")
    _, reported = await process.communicate()
    assert process.returncode == 1
    assert b"there is no company 'nobody'" in reported
    assert b"Traceback" not in reported


async def _run(program: str, served: RunningService, folder: Path) -> str:
    process = await _started(program, served, folder)
    printed, reported = await process.communicate()
    assert (process.returncode, reported) == (0, b"")
    return printed.decode()


async def _started(
    program: str, served: RunningService, folder: Path, company: str = "acme"
) -> asyncio.subprocess.Process:
    environment = os.environ | {"API": f"{served.url}/v1", "KEY": served.key, "COMPANY": company}
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=pipe, stderr=pipe, cwd=folder, env=environment
    )
