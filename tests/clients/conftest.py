"""The service on sample data, and a client of each language generated from its document once."""

from typing import Any

import pytest

from tests.clients.generated_client import GeneratedClient, python_client, typescript_client
from tests.contract.conftest import world
from tests.contract.world import World

__all__ = ["world"]

COMPANY = "summit-crest"


@pytest.fixture(scope="session")
def root(world: World) -> str:
    """The root of the service, with the version in it."""
    return str(world.http.make_url("/v1"))


@pytest.fixture(scope="session")
def asking(world: World, root: str) -> dict[str, str]:
    """What the programs of the page find in their environment."""
    return {"API_ROOT": root, "API_KEY": world.keys["all"], "COMPANY": COMPANY}


@pytest.fixture(scope="session")
def feed(world: World) -> list[dict[str, Any]]:
    """What both programs must print: computed from the source, several pages of it."""
    records = [envelope["record"] for envelope in world.of("listings", COMPANY)]
    assert len(records) > 3 * 100
    lines = [
        {"id": record["PlatformListingId"], "price": record["ListPrice"], "images": len(record["ListingImages"])}
        for record in records
    ]
    return sorted(lines, key=lambda line: str(line["id"]))


@pytest.fixture(scope="session")
async def python(root: str, tmp_path_factory: pytest.TempPathFactory) -> GeneratedClient:
    """The generated Python client."""
    return await python_client(root, tmp_path_factory.mktemp("python"))


@pytest.fixture(scope="session")
async def typescript(root: str, tmp_path_factory: pytest.TempPathFactory) -> GeneratedClient:
    """The generated TypeScript client."""
    return await typescript_client(root, tmp_path_factory.mktemp("typescript"))
