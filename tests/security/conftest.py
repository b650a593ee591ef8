"""Two parents with their companies behind the real service, and a key for each kind of scope."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import orjson
import pytest

from mappings.visibility import DisplayLicence
from sample import write_source
from service.keys.store import KeyGrant
from tests.contract.conftest import open_world
from tests.contract.world import PARENT, Envelope, World, read_source
from tests.security.expected_access import AccessModel
from tests.service.conftest import open_api, stand_in

__all__ = ["open_api", "stand_in"]

_LISTINGS = 120
OTHER_PARENT = "summit-crest"
_ADOPTED = ("tidewater-brokers", "orchard-street")

_SCOPES = {
    "one": KeyGrant("one", companies=("evergreen-realty",), rate=None),
    "two": KeyGrant("two", companies=("harbor-lane-homes", "4300"), rate=None),
    "parent": KeyGrant("parent", parent_companies=(PARENT,), rate=None),
    "parent and company": KeyGrant("both", parent_companies=("4200",), companies=("rainier-gate",), rate=None),
    "all": KeyGrant("all", all_companies=True, rate=None),
    "idx": KeyGrant("idx", companies=("evergreen-realty", "4300"), rate=None, display=DisplayLicence.IDX),
    "nothing": KeyGrant("nothing", companies=("unknown",), parent_companies=("no-parent",), rate=None),
}


@pytest.fixture(scope="session")
async def walled(engine_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """The service over companies of two parents, and its keys by the kind of their scope."""
    source = tmp_path_factory.mktemp("walled") / "sample"
    write_source(source, _LISTINGS)
    _rewrite(source / "companies.ndjson", _adopt)
    _rewrite(source / "agents.ndjson", _renumber)
    for name in ("listings", "sold_listings"):
        _rewrite(source / f"{name}.ndjson", _opt_out)
    async with open_world(engine_url, source, _SCOPES) as opened:
        yield opened


@pytest.fixture(scope="session")
def estate(walled: World) -> AccessModel:
    """What the source says about who may read what."""
    return AccessModel(walled.source, _SCOPES)


def _rewrite(path: Path, change: Callable[[list[Envelope]], None]) -> None:
    lines = read_source(path)
    change(lines)
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def _adopt(companies: list[Envelope]) -> None:
    """Give the independent companies a parent: the generated data has one parent only."""
    for line in companies:
        if line["record"]["platform_company_id"] in _ADOPTED:
            line["parent_company_id"] = OTHER_PARENT


def _opt_out(listings: list[Envelope]) -> None:
    """Withhold the first listing of each company, by which the matrix asks, and every fifth of the others."""
    seen: set[str] = set()
    for number, line in enumerate(listings):
        if line["platform_company_id"] not in seen or not number % 5:
            line["record"]["InternetEntireListingDisplayYN"] = False
        seen.add(line["platform_company_id"])


def _renumber(agents: list[Envelope]) -> None:
    """Give the first agent of each company a source id that no other company has; the generated ones are shared."""
    seen: set[str] = set()
    for line in agents:
        company = line["platform_company_id"]
        if company not in seen:
            line["source_agent_id"] = f"S-{len(seen):03}-{company[:3]}"
        seen.add(company)
