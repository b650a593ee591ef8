"""Profiles and maps: what they say, and the errors of those that cannot be meant."""

from pathlib import Path

import msgspec
import pytest

from indexer.errors import SourceError
from indexer.reso.client.edmx import parse_entity_sets
from indexer.reso.entity_forms import SourceForms
from indexer.reso.source_map import profile_names, read_map


@pytest.mark.parametrize("name", profile_names())
def test_each_profile_expects_photos_and_says_what_it_was_tried_with(name: str) -> None:
    dialect = read_map(None, name, "actris").dialect
    assert (dialect.profile, "Media" in dialect.expects, bool(dialect.tested)) == (name, True, True)


def test_a_map_names_its_profile_and_overrides_single_members_of_it(tmp_path: Path) -> None:
    (path := tmp_path / "mls.toml").write_text(
        'profile = "mlsgrid"\nsystem = "o\'hare"\n[dialect]\npage_size = 7\n[dialect.children.Media]\ncounted_by = ""\n'
        '[dialect.limits]\nrequests_per_day = 9\n[dialect.expects]\nOpenHouse = []\n[Property.fields]\nCity = "Town"\n'
    )
    made = read_map(path)
    assert made.dialect.required_filter == "OriginatingSystemName eq 'o''hare'"
    assert (made.dialect.page_size, made.dialect.load, made.dialect.live) == (7, "links", "MlgCanView eq true")
    media = made.dialect.children["Media"]
    assert (media.counted_by, media.places, media.options) == ("", ("expand",), False)
    assert (made.dialect.limits.requests_per_day, made.dialect.limits.requests_per_second) == (9, 2)
    assert (made.dialect.expects["OpenHouse"], "Property" in made.dialect.expects) == ((), True)
    assert "Town" in made.dictionary.requested_fields("Property")
    assert read_map(path, system="actris").dialect.required_filter == "OriginatingSystemName eq 'actris'"
    assert read_map(path, "bridge").dialect.profile == "bridge"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[Property", "mls.toml is not valid TOML: "),
        ("[Properties]\nkey = 'K'", "Properties: is not an entity"),
        ("company = 'acme'", "mls.toml: "),
        ('profile = "brigde"', "'brigde' is not a profile: give one of bridge, generic, mlsgrid, spark, trestle."),
        ("profile = 1", "mls.toml: profile: is 1, not a text."),
        ("dialect = 1", "mls.toml: dialect: is 1, not a table."),
        ("[dialect]\nlaod = 'keys'", "mls.toml: dialect: object contains unknown field `laod`: give one of "),
        ("[dialect]\nload = 'key'", "mls.toml: dialect.load: invalid enum value 'key'."),
        ("[dialect.children.Photos]\nfrom = ['set']", "mls.toml: dialect.children.Photos: is not an entity: give one"),
        ("[dialect.children.Media]\nfrom = ['sets']", "mls.toml: dialect.children.Media.from[0]: invalid enum value"),
        ("[dialect.children]\nMedia = 1", "mls.toml: dialect.children: is not a table of entities."),
        ("[dialect.searchable]\nMember = ['MemberMlsId']", "dialect.searchable.Member: lacks MemberKey, so Member"),
        ("[dialect]\ngone = { field = 'OwnerName', is = ['x'] }", "dialect.gone.field: OwnerName is private and is"),
        ("profile = 'mlsgrid'", "mls.toml: the profile mlsgrid needs the OriginatingSystemName of the MLS: give --sys"),
        ("[dialect.limits]\nrequests_per_day = -1", "mls.toml: dialect.limits: "),
    ],
)
def test_a_dialect_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (path := tmp_path / "mls.toml").write_text(text)
    with pytest.raises(SourceError) as refused:
        read_map(path)
    assert said in str(refused.value)
    with pytest.raises(SourceError, match="cannot be opened"):
        read_map(tmp_path / "nowhere.toml")


def test_numbers_of_lookups_become_names() -> None:
    """Those of the metadata, or their standard names; unknown numbers stay."""
    metadata = (
        '<Edmx xmlns="urn:edmx"><Schema xmlns="urn:one" Namespace="a"><EnumType Name="Status"><Member Name="Active"/>'
        '<Member Name="Under" Value="7"><Annotation Term="RESO.OData.Metadata.StandardName" String="Pending"/></Member>'
        '</EnumType><EntityType Name="P"><Property Name="ListingKey" Type="Edm.String"/>'
        '<Property Name="StandardStatus" Type="a.Status"/><Property Name="ModificationTimestamp"/>'
        '<Property Name="View" Type="Collection(a.Status)"/></EntityType>'
        '<EntityContainer><EntitySet Name="Property" EntityType="a.P"/></EntityContainer></Schema></Edmx>'
    )
    source = read_map()
    dialect = msgspec.structs.replace(source.dialect, lookups="numbers")
    form = SourceForms(dialect, source.dictionary, parse_entity_sets(metadata.encode())).form("Property")
    assert [form.named("StandardStatus", value) for value in (0, "7", 8, "Closed")] == [
        "Active",
        "Pending",
        8,
        "Closed",
    ]
    assert (form.named("View", [0, 9]), form.named("ListingKey", "0")) == (["Active", 9], "0")
