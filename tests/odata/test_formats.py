"""What OData clients ask for by headers: formats, versions and batches."""

from decimal import Decimal
from typing import Any
from xml.etree import ElementTree as ET

import orjson
import pytest
from yarl import URL

from service.reso.entity_events import EVENT_ENTITY_SET, EVENT_PROPERTIES
from service.reso.protocol import DATA_FORMATS, METADATA_FORMATS, NotAcceptable, negotiate_format
from service.reso.sets.declarations import ENTITY_SETS, declared_navigations
from tests.odata.odata_client import ODataClient

_EDM = "{http://docs.oasis-open.org/odata/ns/edm}"
_JSON, _NONE, _XML = "application/json", "application/json;odata.metadata=none", "application/xml"
_SELF_EVIDENT = ("Edm.String", "Edm.Boolean")
_FULL, _MINIMAL = "application/json;odata.metadata=full", "application/json;odata.metadata=minimal"
# What Excel and Power BI send.
_MICROSOFT = (
    "application/json;odata.metadata=minimal;q=1.0,application/json;odata=minimalmetadata;q=0.9,"
    "application/atomsvc+xml;q=0.8,application/atom+xml;q=0.8,application/xml;q=0.7,text/plain;q=0.7"
)
_DATA: list[tuple[str, str | None]] = [
    ("", _JSON),
    ("*/*", _JSON),
    ("application/*", _JSON),
    ("application/json", _JSON),
    ("Application/JSON; charset=UTF-8", _JSON),
    ("application/json;odata.metadata=minimal", _JSON),
    ("application/json;metadata=minimal;odata.streaming=true;IEEE754Compatible=false", _JSON),
    ("application/json;odata.metadata=none", _NONE),
    ("application/json;q=0.5, application/json;odata.metadata=none", _NONE),
    ("application/json;odata.metadata=verbose, application/json;q=0.1", _JSON),
    ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", _JSON),
    ("not a media range", _JSON),
    (_MICROSOFT, _JSON),
    ("application/json;odata.metadata=full", _FULL),
    ("application/json;q=0.5,application/json;odata.metadata=full;q=0.6", _FULL),
    ("application/json;IEEE754Compatible=true", f"{_MINIMAL};IEEE754Compatible=true"),
    ("application/json;odata.metadata=minimal;IEEE754Compatible=true", f"{_MINIMAL};IEEE754Compatible=true"),
    ("application/json;odata.metadata=full;IEEE754Compatible=true", f"{_FULL};IEEE754Compatible=true"),
    ("application/json;odata.metadata=verbose", None),
    ("application/json;odata=verbose", None),
    ("application/json;IEEE754Compatible=perhaps", None),
    ("application/json;q=0", None),
    ("application/json;q=0, */*", None),
    ("application/atom+xml", None),
    ("text/html", None),
]
_METADATA: list[tuple[str, str | None]] = [
    ("", _XML),
    ("*/*", _XML),
    ("application/xml", _XML),
    ("application/json", _JSON),
    ("application/xml;q=0.5,application/json", _JSON),
    ("application/json;q=0.5,*/*", _XML),
    (_MICROSOFT, _XML),
    ("text/html", None),
]


_OPTIONS: dict[str, str | None] = {"json": _JSON, "XML": _XML, "application/json": _JSON, "text/html": None}
_CASES = [
    *((None, accept, expected, DATA_FORMATS) for accept, expected in _DATA),
    *((None, accept, expected, METADATA_FORMATS) for accept, expected in _METADATA),
    # The option takes precedence.
    *(
        (option, accept, expected, METADATA_FORMATS)
        for option, expected in _OPTIONS.items()
        for accept in ("", _XML, _JSON)
    ),
]


@pytest.mark.parametrize(("option", "accept", "expected", "offered"), _CASES)
def test_data_and_metadata_come_in_the_format_that_a_client_prefers(
    option: str | None, accept: str, expected: str | None, offered: Any
) -> None:
    if expected is not None:
        assert negotiate_format(option, accept, offered).content_type == expected
        return
    with pytest.raises(NotAcceptable) as raised:
        negotiate_format(option, accept, offered)
    assert raised.value.faults[0].parameter == ("Accept" if option is None else "$format")


async def test_a_client_that_accepts_nothing_is_refused(odata: ODataClient) -> None:
    for path in ("", "$metadata", "Property", "Property('x')", "EntityEvent"):
        reply = await odata.request(path, "all", {"Accept": "application/atom+xml"})
        assert reply.problem == (406, "not-acceptable", "Accept")
        assert "application/json" in reply.body["error"]["message"]
    # A number has one format, whatever a client accepts.
    assert (await odata.request("Property/$count", "all", {"Accept": "application/json"})).status == 200


async def test_without_metadata_the_context_is_left_out(odata: ODataClient) -> None:
    key = (await odata.page("Property", top=1))["value"][0]["ListingKey"]
    for path in ("", "Property", f"Property('{key}')", f"Property('{key}')/ListingKey", "EntityEvent"):
        whole = await odata.request(path, "all", {"Accept": _JSON})
        bare = await odata.request(path, "all", {"Accept": _NONE})
        assert (whole.headers["Content-Type"], bare.headers["Content-Type"]) == (_JSON, _NONE)
        assert whole.body.pop("@odata.context")
        assert bare.body == {name: value for name, value in whole.body.items() if name != "@odata.context"}
        assert "Accept" in bare.headers["Vary"].split(", ")


_LONG_NUMBERS = ("Edm.Int64", "Edm.Decimal")
_PATHS = {
    "Property": "Property?$top=20&$count=true&$orderby=ListPrice desc",
    "Member": "Member?$top=5",
    "Media": "Media?$top=5&$count=true",
    "Lookup": "Lookup?$top=5",
    "EntityEvent": "EntityEvent?$top=5&$count=true",
}


def _types(name: str) -> dict[str, str]:
    if name == EVENT_ENTITY_SET:
        return dict(EVENT_PROPERTIES)
    return {title: str(declared.edm) for title, declared in ENTITY_SETS[name].properties.items()}


@pytest.mark.parametrize("name", _PATHS)
async def test_long_numbers_are_strings_to_who_asks_for_them(odata: ODataClient, name: str) -> None:
    accept = {"Accept": f"{_MINIMAL};IEEE754Compatible=true"}
    plain = (await odata.request(URL(f"{odata.root}/{_PATHS[name]}"))).body
    reply = await odata.request(URL(f"{odata.root}/{_PATHS[name]}"), "all", accept)
    assert reply.headers["Content-Type"] == accept["Accept"]
    found, types = orjson.loads(reply.raw), _types(name)
    if "@odata.count" in plain:
        assert found["@odata.count"] == str(plain["@odata.count"])
    for row, before in zip(found["value"], plain["value"], strict=True):
        assert row.keys() == before.keys()
        for title, value in row.items():
            if types[title] in _LONG_NUMBERS and value is not None:
                assert isinstance(value, str)
                assert "e" not in value
                assert Decimal(value) == Decimal(str(before[title]))
            else:
                assert value == before[title]
    if name == "Property":
        path = f"Property('{found['value'][0]['ListingKey']}')"
        assert (await odata.request(path, "all", accept)).body.items() >= found["value"][0].items()
        one = await odata.request(f"{path}/ListPrice", "all", accept)
        assert one.body["value"] == found["value"][0]["ListPrice"]


@pytest.mark.parametrize("name", _PATHS)
async def test_full_metadata_name_types_and_links(odata: ODataClient, name: str) -> None:
    accept, url = {"Accept": _FULL}, URL(f"{odata.root}/{_PATHS[name]}")
    plain, reply, types = (await odata.request(url)).body, await odata.request(url, "all", accept), _types(name)
    assert reply.headers["Content-Type"] == _FULL
    found = reply.body
    rows, before = found.pop("value"), plain.pop("value")
    assert found == plain
    for row, bare in zip(rows, before, strict=True):
        assert {title: value for title, value in row.items() if "@" not in title} == bare
        assert row["@odata.type"] == f"#org.reso.metadata.{name}"
        assert row["@odata.id"] == row["@odata.readLink"]
        entity = await odata.request(URL(row["@odata.id"], encoded=True), "all", accept)
        assert {title: value for title, value in entity.body.items() if title != "@odata.context"} == row
        named = {title: f"#{edm.removeprefix('Edm.')}" for title, edm in types.items() if edm not in _SELF_EVIDENT}
        assert {title.partition("@")[0]: text for title, text in row.items() if title[1:].endswith("@odata.type")} == {
            title: text.replace("Edm.", "") for title, text in named.items() if bare[title] is not None
        }
        links = {title.partition("@")[0]: link for title, link in row.items() if "@odata.navigationLink" in title}
        assert links == {
            link: f"{row['@odata.id']}/{link}" for link in (one.name for one in declared_navigations(name))
        }
        for link in [*links.values()][:1]:
            assert (await odata.request(URL(link, encoded=True))).status in {200, 204}
        if name == "Property":
            break


async def test_full_metadata_of_what_is_selected_and_expanded(odata: ODataClient) -> None:
    """As the OData client of .NET asks, which wants full metadata with every `$select`."""
    options = {"top": 30, "select": "ListPrice,Media", "expand": "ListAgent($select=MemberEmail)"}
    for row in (await odata.page("Property", "all", {"Accept": _FULL}, **options))["value"]:
        links = {title for title in row if title.endswith("@odata.navigationLink")}
        assert links == {"Media@odata.navigationLink", "ListAgent@odata.navigationLink"}
        agent = row["ListAgent"]
        if agent is not None:
            assert agent.keys() == {"@odata.type", "@odata.id", "@odata.readLink", "MemberKey", "MemberEmail"}
            assert agent["@odata.id"] == f"{odata.root}/Member('{agent['MemberKey']}')"
    one = await odata.request(f"Property('{row['ListingKey']}')/ListPrice", "all", {"Accept": _FULL})
    assert (one.body["@odata.type"], one.body["value"]) == ("#Decimal", row["ListPrice"])


async def test_metadata_in_json_say_the_same_as_in_xml(odata: ODataClient) -> None:
    reply = await odata.request("$metadata", "all", {"Accept": _JSON})
    assert (await odata.get("$metadata", format="json")).raw == reply.raw
    document = reply.body
    assert (document["$Version"], document["$EntityContainer"]) == ("4.01", "org.reso.metadata.Default")
    schema = document["org.reso.metadata"]
    xml = ET.fromstring((await odata.request("$metadata")).raw)  # noqa: S314 - our own service
    types = {str(one.get("Name")): one for one in xml.iter(f"{_EDM}EntityType")}
    assert {name for name, row in schema.items() if row["$Kind"] == "EntityType"} == types.keys()
    for name, element in types.items():
        assert schema[name]["$Key"] == [item.get("Name") for item in element.iter(f"{_EDM}PropertyRef")]
        for entity in element.iter(f"{_EDM}Property"):
            assert _xml_facets(schema[name][entity.get("Name")]) == dict(entity.attrib) | {"Name": None}
    for child in xml.iter(f"{_EDM}EntitySet"):
        declared = schema["Default"][child.get("Name")]
        assert (declared["$Collection"], declared["$Type"]) == (True, child.get("EntityType"))
        for annotation in child.iter(f"{_EDM}Annotation"):
            names = [path.text for path in annotation.iter(f"{_EDM}PropertyPath")]
            assert names in declared[f"@{annotation.get('Term')}"].values()


def _xml_facets(declared: dict[str, Any]) -> dict[str, Any]:
    """Return a property of CSDL JSON with the attributes that it has in XML."""
    name = declared.get("$Type", "Edm.String")
    nullable = {} if declared.get("$Nullable") else {"Nullable": "false"}
    scale = {"Scale": declared["$Scale"]} if "$Scale" in declared else {}
    return {"Name": None, "Type": f"Collection({name})" if declared.get("$Collection") else name, **nullable, **scale}


@pytest.mark.parametrize(
    ("headers", "status", "version"),
    [
        ({"OData-MaxVersion": "4.0"}, 200, "4.0"),
        ({"OData-MaxVersion": "4.0;NetFx", "MaxDataServiceVersion": "3.0;NetFx"}, 200, "4.0"),
        ({"OData-MaxVersion": "4.01"}, 200, "4.01"),
        ({"OData-MaxVersion": "5.0"}, 200, "4.01"),
        ({"OData-Version": "4.0"}, 200, "4.01"),
        ({"OData-Version": "4.01", "OData-MaxVersion": "4.01"}, 200, "4.01"),
        ({"OData-MaxVersion": "3.0"}, 400, "4.01"),
        ({"OData-MaxVersion": "four"}, 400, "4.01"),
        ({"OData-Version": "3.0"}, 400, "4.01"),
        ({"OData-Version": "4.02"}, 400, "4.01"),
    ],
)
async def test_versions(odata: ODataClient, headers: dict[str, str], status: int, version: str) -> None:
    reply = await odata.request("Teams", "all", headers)
    assert (reply.status, reply.headers["OData-Version"]) == (status, version)
    if status == 400:
        assert reply.problem[1:] == ("invalid-parameter", next(iter(headers)))


async def test_a_batch_is_refused_with_what_to_do(odata: ODataClient) -> None:
    for media_type in ("application/json", "multipart/mixed;boundary=b"):
        reply = await odata.request("$batch", "all", {"Content-Type": media_type}, "POST", b'{"requests":[]}')
        assert reply.problem == (501, "not-implemented", "$batch")
        assert "one by one" in reply.body["error"]["message"]
    assert (await odata.request("$batch")).status == 405


async def test_a_function_that_no_index_answers_is_named_with_what_to_do(odata: ODataClient) -> None:
    for function, advice in {"month(CloseDate) eq 1": "range of dates", "length(City) gt 3": "startswith"}.items():
        message = (await odata.get("Property", filter=function)).body["error"]["message"]
        assert function.partition("(")[0] in message
        assert advice in message
