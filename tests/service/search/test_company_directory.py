"""The company directory, and how it is read."""

from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings
from mappings import COMPANY
from service.app import build_services
from service.scope import CompanyDirectory, ListedCompany
from service.settings import ServiceSettings

ACME = ListedCompany("acme", "1", "north")
NORTH = ListedCompany("north", "100")


def test_a_company_is_known_by_key_and_by_number() -> None:
    known = CompanyDirectory.of([ACME, NORTH])
    assert (known.key("acme"), known.key("1"), known.key("2"), known.key("")) == ("acme", "acme", None, None)


def test_a_company_without_a_number_is_known_by_key() -> None:
    assert CompanyDirectory.of([ListedCompany("acme")]).keys == {"acme": "acme"}


def test_a_key_counts_before_the_number_of_another_company() -> None:
    assert CompanyDirectory.of([ListedCompany("1"), ListedCompany("acme", "1")]).key("1") == "1"


def test_a_parent_is_found_by_key_or_number_wherever_it_stands() -> None:
    birch = ListedCompany("birch", parent="100")
    assert CompanyDirectory.of([ACME, birch, NORTH]).children == {"north": frozenset({"acme", "birch"})}


def test_a_parent_that_is_not_there_has_no_children() -> None:
    assert CompanyDirectory.of([ACME]).children == {}


def test_unknown_companies_have_no_keys() -> None:
    assert CompanyDirectory.of([ACME, NORTH]).keys_of(["1", "gone", "north"]) == {"acme", "north"}


async def test_the_directory_is_built_again_only_if_companies_have_changed(
    client: AsyncElasticsearch, reader: AsyncElasticsearch, connection: ConnectionSettings
) -> None:
    async def write(name: str, **members: object) -> None:
        document = {"id": name, "deleted": False, **members}
        await client.index(index=connection.alias(COMPANY), id=name, document=document, refresh=True)

    mappings = {"properties": {"id": {"type": "keyword"}}}
    await client.indices.create(index=connection.alias(COMPANY), mappings=mappings)
    await write("north", numeric_id="100")
    await write("acme", parent_company_id="100")
    directory = build_services(reader, ServiceSettings(fresh_seconds=0.0, stale_seconds=0.0), connection).directory
    first = await directory.get()
    assert (first.keys, first.children) == (
        {"north": "north", "100": "north", "acme": "acme"},
        {"north": frozenset({"acme"})},
    )
    assert await directory.get() is first
    await write("acme", deleted=True)
    assert (await directory.get()).keys == {"north": "north", "100": "north"}
