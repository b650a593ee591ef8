"""The Python client: it is generated without a warning, its types hold, and it walks a feed."""

import datetime as dt
import importlib
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any

import pytest

from service.operation import Operation
from service.resources import OPERATIONS
from tests.clients.conftest import COMPANY
from tests.clients.generated_client import PACKAGE, GeneratedClient
from tests.contract.request_variants import request_paths
from tests.contract.world import World, source_identifiers
from tests.openapi.document_validators import GET_OPERATIONS

_WRONG_USES = f"""
from {PACKAGE} import AuthenticatedClient
from {PACKAGE}.api.listings import list_listings
from {PACKAGE}.models import AgentShow, ListingPage, ListingShow


def wrong(client: AuthenticatedClient, page: ListingPage, agent: AgentShow, shown: ListingShow) -> None:
    list_listings.sync(client=client)
    list_listings.sync(client=client, platform_company_id="a", updated_sinse=1)
    list_listings.sync(client=client, platform_company_id="a", market_status="sideways")
    agent.email_addresses.primary
    page.listings[0].price
    page.listings[0].list_price.upper()
    list_listings.sync(client=client, platform_company_id="a").listings
    shown.new_construction_yn


def right(client: AuthenticatedClient) -> None:
    list_listings.sync(client=client, platform_company_id="a", property_types="1,2")
"""


# The type of an answer, or of its elements where it is an array.
_ANSWERS = {
    "/listings": "ListingPage",
    "/listings/{platform_listing_id}": "ListingShow",
    "/sold_listings": "SoldListingPage",
    "/sold_listings/{platform_listing_id}": "SoldListingShow",
    "/agents": "Agent",
    "/agents/{guid}": "AgentShow",
    "/offices": "OfficePage",
    "/offices/{platform_office_id}": "Office",
    "/teams": "Team",
    "/teams/{platform_team_id}": "Team",
    "/companies": "Company",
    "/companies/{platform_company_id}": "Company",
}
_FORMS = {
    (): "ListingPage",
    ("underscore_response",): "ListingUnderscoredPage",
    ("timestamps_only",): "ListingTimestampsPage",
    ("timestamps_only", "underscore_response"): "ListingTimestampsUnderscoredPage",
}
_EVERYTHING: dict[str, Any] = {"platform_company_id": COMPANY, "updated_since": 0, "page_size": 1000}


@pytest.fixture(scope="module")
def package(python: GeneratedClient) -> Iterator[ModuleType]:
    """The generated package."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(python.folder)
        yield importlib.import_module(PACKAGE)
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def models(package: ModuleType) -> Any:
    """The types of the answers."""
    return importlib.import_module(f"{package.__name__}.models")


@pytest.fixture(scope="module")
async def client(package: ModuleType, world: World, root: str) -> AsyncIterator[Any]:
    """A client with a key for everything in the header."""
    async with with_key(package, root, world.keys["all"]) as opened:
        yield opened


def with_key(package: ModuleType, root: str, key: str) -> Any:
    """Return a client with a key in the header, as the page makes it."""
    return package.AuthenticatedClient(base_url=root, token=key, prefix="", auth_header_name="x-api-key")


async def asked(client: Any, path: str, *variables: str, **parameters: object) -> Any:
    """Return the answer of an operation, with its status."""
    described = GET_OPERATIONS[path]
    tag = described["tags"][0].lower().replace(" ", "_")
    module = importlib.import_module(f"{PACKAGE}.api.{tag}.{described['operationId']}")
    return await module.asyncio_detailed(*variables, client=client, **parameters)


def test_the_generator_has_nothing_to_warn_of_but_streams_and_files(python: GeneratedClient) -> None:
    assert python.generation.code == 0
    warnings = re.findall(r"^WARNING (.*)$", python.generation.all, re.MULTILINE)
    assert {*warnings} == {
        "parsing GET /snapshot/{resource} within feed.",
        "parsing GET /exports/{resource}/{file} within feed.",
    }
    assert "application/x-ndjson" in python.generation.all


async def test_the_program_has_the_types_that_it_uses_and_wrong_uses_are_found(python: GeneratedClient) -> None:
    files = ("read_all.py", "wrong.py")
    (python.folder / "wrong.py").write_text(_WRONG_USES, encoding="utf-8")
    checked = await python.run(
        sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", *files, MYPYPATH="."
    )
    found = set(re.findall(r"^wrong\.py:(\d+): error:", checked.output, re.MULTILINE))
    assert found == {str(line) for line in range(8, 16)}, checked.all
    assert "read_all.py" not in checked.output


async def test_the_program_walks_the_feed(
    python: GeneratedClient, asking: dict[str, str], feed: list[dict[str, Any]]
) -> None:
    walked = await python.run(sys.executable, "read_all.py", **asking)
    assert (walked.code, walked.errors) == (0, "")
    assert [json.loads(line) for line in walked.output.splitlines()] == feed


async def test_a_refusal_ends_the_program_with_what_the_service_said(
    python: GeneratedClient, asking: dict[str, str]
) -> None:
    walked = await python.run(sys.executable, "read_all.py", **{**asking, "COMPANY": "unknown"})
    assert (walked.code, walked.output) == (1, "")
    assert walked.errors.startswith("invalid-parameter: platform_company_id")


def _variables(world: World, operation: Operation) -> list[str]:
    """Return the identifier of a record where a path takes one."""
    return [request_paths(world, operation)[0].rpartition("/")[2]] if "{" in operation.path else []


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.path)
async def test_every_operation_answers_its_type(models: Any, client: Any, world: World, operation: Operation) -> None:
    path = operation.path
    known = {parameter["name"] for parameter in GET_OPERATIONS[path]["parameters"] if parameter["in"] == "query"}
    sent = _EVERYTHING if path == "/listings" else {name: 0 for name in ("updated_since",) if name in known}
    answer = await asked(client, path, *_variables(world, operation), **sent)
    assert answer.status_code == 200
    typed = answer.parsed[0] if isinstance(answer.parsed, list) else answer.parsed
    assert type(typed) is getattr(models, _ANSWERS[path])
    # Nothing came that the document has no type for.
    assert typed.additional_properties == {}


@pytest.mark.parametrize("flags", _FORMS, ids="-".join)
async def test_every_form_of_an_answer_has_a_type_of_its_own(models: Any, client: Any, flags: tuple[str, ...]) -> None:
    answer = await asked(client, "/listings", **_EVERYTHING, **dict.fromkeys(flags, True))
    assert type(answer.parsed) is getattr(models, _FORMS[flags])
    assert answer.parsed.additional_properties == answer.parsed.listings[0].additional_properties == {}


def _compared(listing: Any) -> dict[str, Any]:
    """Return a listing as it is written back, its moment as a moment."""
    return {**listing.to_dict(), "ModificationTimestamp": listing.modification_timestamp}


def _read(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "ModificationTimestamp": dt.datetime.fromisoformat(record["ModificationTimestamp"])}


async def test_a_listing_is_typed_to_its_inmost_members(models: Any, client: Any, world: World) -> None:
    page = (await asked(client, "/listings", **_EVERYTHING, market_status=models.ListListingsMarketStatus.ALL)).parsed
    source = {line["record"]["PlatformListingId"]: line["record"] for line in world.of("listings", COMPANY)}
    assert [_compared(listing) for listing in page.listings] == [_read(source[name]) for name in sorted(source)]
    images = [image for listing in page.listings for image in listing.listing_images]
    assert {type(image) for image in images} == {models.ListingImage}
    shared = {type(listing.shared_partner_data) for listing in page.listings}
    assert shared == {models.SharedPartnerData, type(None)}
    days = {listing.created_date for listing in page.listings}
    assert {type(day) for day in days} <= {dt.date, type(None)}
    assert {type(listing.modification_timestamp) for listing in page.listings} == {dt.datetime}


async def test_what_a_later_version_adds_breaks_nothing(models: Any, world: World) -> None:
    record = {**world.of("listings")[0]["record"], "Status": "Auctioned", "Mood": "sunny"}
    record["ListingImages"] = [{**image, "Alt": "front"} for image in record["ListingImages"]]
    page = models.ListingPage.from_dict({"FinalPage": True, "Listings": [record], "Total": 1})
    [listing] = page.listings
    assert (listing.status, listing["Mood"], page["Total"]) == ("Auctioned", "sunny", 1)
    assert {image["Alt"] for image in listing.listing_images} == {"front"}
    assert _compared(listing) == _read(record)
    assert models.ProbeState.from_dict({"status": "dreaming"}).status == "dreaming"


async def test_several_property_types_are_sent_as_the_service_reads_them(
    client: Any, models: Any, world: World
) -> None:
    everything = {**_EVERYTHING, "market_status": models.ListListingsMarketStatus.ALL}
    answer = await asked(client, "/listings", **everything, property_types="1,2")
    found = [listing.platform_listing_id for listing in answer.parsed.listings]
    assert found == source_identifiers(
        world.of("listings", COMPANY, where=lambda line: line["property_type_id"] in {1, 2})
    )
    assert found


async def test_a_refusal_is_a_typed_problem(models: Any, client: Any) -> None:
    answer = await asked(client, "/listings", platform_company_id="unknown", page_size=0)
    assert (answer.status_code, type(answer.parsed)) == (400, models.Problem)
    assert (answer.parsed.status, answer.parsed.code) == (400, "invalid-parameter")
    assert {type(fault) for fault in answer.parsed.errors} == {models.Fault}
    assert {fault.parameter for fault in answer.parsed.errors} == {"page_size"}


async def test_the_key_may_be_in_the_header_or_in_the_url(
    package: ModuleType, models: Any, world: World, root: str
) -> None:
    in_url = package.Client(base_url=root, httpx_args={"params": {"api-key": world.keys["large"]}})
    for client in (in_url, with_key(package, root, world.keys["large"])):
        async with client as opened:
            [company] = (await asked(opened, "/companies")).parsed
            assert (type(company), company.platform_company_id) == (models.Company, COMPANY)
    async with package.Client(base_url=root) as opened:
        refused = await asked(opened, "/companies")
        assert (refused.status_code, type(refused.parsed)) == (401, models.Problem)


async def test_the_probes_are_asked_at_the_host(package: ModuleType, models: Any, root: str) -> None:
    async with package.Client(base_url=root.removesuffix("/v1")) as opened:
        probed = await asked(opened, "/readyz", verbose="1")
    assert (type(probed.parsed), probed.parsed.status) == (models.ProbeState, "ready")
    assert {type(check) for check in probed.parsed.checks} == {models.Check}
