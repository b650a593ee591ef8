"""What each check finds over a scripted stand-in."""

import asyncio
from typing import Any

import pytest

from cluster.connection import ConnectionSettings
from mappings import COMPANY, RESOURCES
from service.app import build_services, reading_client
from service.errors import ApiError, NotElasticsearch
from service.health.checks import Finding, FindingState, refusals, run_checks
from service.settings import ServiceSettings
from tests.internals import Internals
from tests.service.stand_in import Reply, StandIn, refusal, valid_indices
from tests.waiting import until

CONNECTION = ConnectionSettings(url=("http://stand-in:9200",))
INDEX = "listings-v0001"
SUBJECTS = ["elasticsearch", "cluster", *(resource.alias for resource in RESOURCES), "keys", "control"]
ALL_NAMES = "/" + ",".join([*(resource.alias for resource in RESOURCES), "api_keys", "control"])


async def found(stand_in: StandIn) -> list[Finding]:
    """Return what every check finds."""
    connection = ConnectionSettings(url=(stand_in.url,))
    async with reading_client(connection, 4, 10) as client:
        return await run_checks(build_services(client, ServiceSettings(), connection).engine, connection)


def bad(findings: list[Finding]) -> list[tuple[str, FindingState, str]]:
    """Return the faults."""
    return [
        (finding.subject, finding.state, finding.problem)
        for finding in findings
        if finding.state is not FindingState.OK
    ]


async def test_a_sound_cluster_is_well_in_three_requests(stand_in: StandIn) -> None:
    findings = await found(stand_in)
    assert bad(findings) == []
    assert [finding.subject for finding in findings] == SUBJECTS
    assert len(stand_in.looked_at) == 3


ABSENT = object()
# What is changed of the indices: paths, and the values there.
Changes = dict[str, object]
MAPPING, SETTINGS = f"{INDEX}/mappings", f"{INDEX}/settings"
# As an index of another version has it.
OTHER_RECORDS: Changes = {f"{MAPPING}/_meta/fingerprint": "0" * 16}


def change(indices: dict[str, Any], changes: Changes) -> None:
    """Change indices; `ABSENT` takes something away."""
    for path, value in changes.items():
        *above, name = path.split("/")
        within = indices
        for part in above:
            within = within[part]
        if value is ABSENT:
            del within[name]
        else:
            within[name] = value


LACKING: Changes = {f"{MAPPING}/properties/deleted": ABSENT}  # every request uses it
SECOND: Changes = {"listings-v0002": valid_indices()[INDEX]}
IN_PLACE: Changes = {INDEX: ABSENT, "listings": {**valid_indices()[INDEX], "aliases": {}}}
OLD_VERSION = "its index lacks fields of this version"
WRONG: dict[str, tuple[Changes, str, str]] = {
    "no alias": ({f"{INDEX}/aliases": {"other": {}}}, "its alias is missing", "The alias listings does not exist."),
    "two indices": (SECOND, "it has several indices", "listings-v0001, listings-v0002"),
    "an index of that name": (IN_PLACE, "it is not an alias", "listings is an index"),
    "a closed index": (
        {f"{SETTINGS}/index.verified_before_close": "true"},
        "its index is closed",
        "listings-v0001 is closed.",
    ),
    "a filter": (
        {f"{INDEX}/aliases/listings": {"filter": {"term": {"company": "acme"}}}},
        "its alias hides records",
        "has a filter",
    ),
    "a field less": (LACKING, OLD_VERSION, "or maps them differently: deleted."),
    "another field": (
        {f"{MAPPING}/properties/clock": {"type": "keyword"}},
        OLD_VERSION,
        "or maps them differently: clock.",
    ),
    "no mapping": ({MAPPING: {}}, OLD_VERSION, "feed_key"),
}


@pytest.mark.parametrize("fault", WRONG)
async def test_an_index_that_is_not_one_to_answer_from_is_wrong(stand_in: StandIn, fault: str) -> None:
    changes, problem, detail = WRONG[fault]
    change(stand_in.indices, changes)
    stand_in.documents["control", "mark-listings"] = {}
    findings = await found(stand_in)
    assert bad(findings) == [("listings", FindingState.WRONG, problem)]
    (finding,) = [finding for finding in findings if finding.is_fatal]
    assert detail in finding.detail
    assert finding.remedy
    assert refusals(findings, CONNECTION).keys() == {"listings"}


IDLE: Changes = {f"{SETTINGS}/index.refresh_interval": ABSENT}
LACKS_STATUS = "listings-v0001 lacks these fields, or maps them differently: status. Requests that use them get 503."
STATUS = f"{MAPPING}/properties/status"
WARNINGS: dict[str, tuple[Changes, str, str]] = {
    "a field less": (OTHER_RECORDS | {STATUS: ABSENT}, "its index lacks search fields of this version", LACKS_STATUS),
    "another field": (
        OTHER_RECORDS | {STATUS: {"type": "text"}},
        "its index lacks search fields of this version",
        LACKS_STATUS,
    ),
    "a newer version": (
        OTHER_RECORDS | {f"{MAPPING}/properties/further": {"type": "keyword"}},
        "its index was built by another version",
        "additional search fields: further.",
    ),
    "other records": (OTHER_RECORDS, "its records have a different schema", "only the schema of the stored records"),
    "no exact values": (
        OTHER_RECORDS | {f"{MAPPING}/properties/exact": ABSENT},
        "its index lacks exact values",
        "get whole numbers, and updates are ref",
    ),
    "other settings": (
        OTHER_RECORDS | {f"{SETTINGS}/index.query.parse.allow_unmapped_fields": ABSENT},
        "its index has different settings",
        "index.query.parse.allow_unmapped_fields.",
    ),
    "no shape": ({f"{MAPPING}/_meta": ABSENT}, "its index has no fingerprint", "not created by the indexer"),
    "no interval": (IDLE, "updates may become visible late", "is not set, so the first search after an idle period"),
    "no refresh": (
        {f"{SETTINGS}/index.refresh_interval": "-1"},
        "updates may become visible late",
        "index.refresh_interval of listings-v0001 is -1.",
    ),
}


@pytest.mark.parametrize("fault", WARNINGS)
async def test_warnings_refuse_nothing(stand_in: StandIn, fault: str) -> None:
    changes, problem, detail = WARNINGS[fault]
    change(stand_in.indices, changes)
    findings = await found(stand_in)
    assert bad(findings) == [("listings", FindingState.WARNING, problem)]
    (finding,) = [finding for finding in findings if finding.problem]
    assert detail in finding.detail
    assert finding.remedy
    assert refusals(findings, CONNECTION) == {}


async def test_two_warnings_are_both_shown(stand_in: StandIn) -> None:
    change(stand_in.indices, OTHER_RECORDS | IDLE)
    assert len(bad(await found(stand_in))) == 2


async def test_missing_keys_are_reported_and_missing_marks_are_wrong(stand_in: StandIn) -> None:
    del stand_in.indices["api_keys"], stand_in.indices["control"]
    assert bad(await found(stand_in)) == [
        ("keys", FindingState.WARNING, "no keys have been created yet"),
        ("control", FindingState.WRONG, "the indexer's watermarks are missing"),
    ]


@pytest.mark.parametrize("version", ["9.5.1", "8.19.4"])
async def test_one_node_of_a_version_that_is_not_supported_refuses_everything(stand_in: StandIn, version: str) -> None:
    stand_in.versions["old"] = version
    findings = await found(stand_in)
    assert bad(findings) == [("elasticsearch", FindingState.WRONG, "unsupported version")]
    assert f"old: Elasticsearch {version}" in findings[0].detail
    assert refusals(findings, CONNECTION).keys() == {resource.alias for resource in RESOURCES}


@pytest.mark.parametrize("health", ["yellow", "red"])
async def test_the_health_of_the_cluster_is_shown(stand_in: StandIn, health: str) -> None:
    stand_in.health = health
    assert bad(await found(stand_in)) == [("cluster", FindingState.WARNING, f"status {health}")]


async def test_without_the_right_to_look_nothing_is_known_and_nothing_refused(stand_in: StandIn) -> None:
    denied = refusal(403, "security_exception")
    names = ["/_nodes/_all/_none", "/_cluster/health", ALL_NAMES, *(f"/{name}" for name in ALL_NAMES[1:].split(","))]
    stand_in.strange = dict.fromkeys(names, denied)
    findings = await found(stand_in)
    assert [finding.subject for finding in findings] == SUBJECTS
    assert {finding.state for finding in findings} == {FindingState.UNKNOWN}
    assert all("Grant the service's user" in finding.remedy for finding in findings)
    assert refusals(findings, CONNECTION) == {}


async def test_what_one_may_not_look_at_hides_nothing_else(stand_in: StandIn) -> None:
    stand_in.strange = dict.fromkeys((ALL_NAMES, "/offices"), refusal(403, "security_exception"))
    change(stand_in.indices, LACKING)
    assert [(subject, state) for subject, state, _ in bad(await found(stand_in))] == [
        ("offices", FindingState.UNKNOWN),
        ("listings", FindingState.WRONG),
    ]


async def test_a_check_that_takes_too_long_is_unknown(stand_in: StandIn, internals: Internals) -> None:
    internals(check_timeout=0.1)
    stand_in.strange = {"/_nodes/_all/_none": Reply(delay=30.0), "/_cluster/health": refusal(503, "no_master")}
    checking = asyncio.create_task(found(stand_in))
    await until(lambda: stand_in.looked_at)
    # The first request is on its way; those behind it have time.
    internals(check_timeout=60.0)
    assert [(subject, state) for subject, state, _ in bad(await checking)] == [
        ("elasticsearch", FindingState.UNKNOWN),
        ("cluster", FindingState.UNKNOWN),
    ]


@pytest.mark.parametrize(
    "reply",
    [
        refusal(503, "cluster_block_exception"),
        refusal(401, "security_exception"),
        Reply(status=502, body=b"<html/>", content_type="text/html", headers={}),
        Reply(delay=30.0),
    ],
)
async def test_a_cluster_that_is_away_is_an_error(stand_in: StandIn, reply: Reply, internals: Internals) -> None:
    internals(check_timeout=0.1)
    stand_in.is_away(reply)
    with pytest.raises(ApiError):
        await found(stand_in)


@pytest.mark.parametrize("status", [200, 404])
async def test_whatever_does_not_name_itself_is_not_elasticsearch(stand_in: StandIn, status: int) -> None:
    stand_in.is_away(Reply(status=status, headers={}))
    with pytest.raises(NotElasticsearch):
        await found(stand_in)


def test_a_prefix_stands_before_what_is_refused() -> None:
    wrong = [Finding(subject=COMPANY.alias, state=FindingState.WRONG)]
    assert refusals(wrong, ConnectionSettings(prefix="t-")).keys() == {"t-companies"}


class Loading:
    """A cluster in which the first build of teams ends while it is being checked."""

    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in
        self._loaded = stand_in.indices.pop("teams-v0001")

    async def get_json(self, target: str) -> tuple[int, Any]:
        """Answer like the stand-in, and end the build after the first question about teams alone."""
        connection = ConnectionSettings(url=(self._stand_in.url,))
        async with reading_client(connection, 4, 10) as client:
            answer = await build_services(client, ServiceSettings(), connection).engine.get_json(target)
        if target.startswith(("/teams?", "/control/_doc/mark-teams")):
            self._stand_in.indices["teams-v0001"] = self._loaded
            mark = {"clock": 1, "sequence": 1, "epoch": 0, "generation": "teams-v0001"}
            self._stand_in.documents["control", "mark-teams"] = mark
        return answer


async def test_what_is_loaded_for_the_first_time_during_a_check_is_not_missing(stand_in: StandIn) -> None:
    assert bad(await run_checks(Loading(stand_in), CONNECTION)) == []
