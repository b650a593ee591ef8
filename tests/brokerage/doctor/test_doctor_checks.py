"""The checks that `brokerage doctor` has beyond the service's, each with what it must find and what it must not."""

import datetime as dt
from typing import Any

import pytest

from brokerage.doctor.cluster_checks import block_findings, clock_finding, disk_finding, key_finding, replica_finding
from brokerage.doctor.command import findings_summary, settings_findings
from cluster.connection import ConnectionSettings
from mappings import RESOURCES
from service.health.checks import Finding, FindingState, IndexInventory
from service.keys.api_key import ApiKey, DamagedKey

URL = {"ELASTICSEARCH_URL": "http://127.0.0.1:9200"}
REDIS = {"BROKERAGE_REDIS_URL": "redis://x"}
FLOOD_STAGE = "cluster.routing.allocation.disk.watermark.flood_stage"
NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, None),
        ({"BROKERAGE_DRAIN_SECONDS": "10"}, None),
        ({"BROKERAGE_DRAIN_SECONDS": "10.1"}, "BROKERAGE_DRAIN_SECONDS exceeds"),
        ({"BROKERAGE_DEADLINE_SECONDS": "0.9", "BROKERAGE_DRAIN_SECONDS": "0"}, "no search can finish in time"),
        ({"BROKERAGE_FRESH_SECONDS": "4"}, "BROKERAGE_FRESH_SECONDS is not below"),
        ({"BROKERAGE_METRICS_PORT": "8079"}, None),
        ({"BROKERAGE_METRICS_HOST": "::1"}, "BROKERAGE_METRICS_HOST is set without BROKERAGE_METRICS_PORT"),
        ({"BROKERAGE_METRICS_PORT": "8079", "BROKERAGE_METRICS_HOST": "::1"}, None),
        (
            {"BROKERAGE_METRICS_PORT": "8079", "BROKERAGE_WORKERS": "2", **REDIS},
            "BROKERAGE_PORT is one of the metrics ports",
        ),
        ({"BROKERAGE_METRICS_PORT": "8081", "BROKERAGE_WORKERS": "2", **REDIS}, None),
        ({"BROKERAGE_WORKERS": "2"}, "BROKERAGE_WORKERS is above 1 without"),
        ({"SOMEBODY_ELSES": "2"}, None),
    ],
)
def test_contradictory_settings_are_reported(given: dict[str, str], said: str | None) -> None:
    (finding,) = settings_findings({**URL, **given})
    if said is None:
        assert finding.state is FindingState.OK
    else:
        assert finding.state is FindingState.WARNING
        assert said in finding.detail


def test_the_nearest_known_variable_is_named_and_a_strange_one_has_none() -> None:
    near, strange = settings_findings({**URL, "BROKERAGE_ELASTICSEARCH_CONECTION": "1", "BROKERAGE_XQZJ": "1"})
    assert near.state is strange.state is FindingState.WRONG
    assert near.detail == "BROKERAGE_ELASTICSEARCH_CONECTION is not a setting: no command starts."
    assert near.remedy == "Did you mean BROKERAGE_ELASTICSEARCH_CONNECTIONS?"
    assert strange.remedy == "`brokerage settings` lists all of them."


def key(**changes: Any) -> ApiKey:
    return ApiKey(key_id="k", name="n", digest="d", created=NOW, **changes)


@pytest.mark.parametrize(
    ("keys", "state", "said"),
    [
        ([], FindingState.WARNING, "There are no keys."),
        ([key(revoked=NOW), key(expires=NOW)], FindingState.WARNING, "All 2 are revoked or expired."),
        ([key(revoked=NOW), key()], FindingState.OK, "1 of 2 are usable"),
        ([key(expires=NOW + dt.timedelta(days=14)), key()], FindingState.OK, "2 of 2 are usable"),
        ([key(expires=NOW + dt.timedelta(days=13)), key(expires=NOW)], FindingState.WARNING, "k (n)."),
        ([key(), DamagedKey("d", "it has no name")], FindingState.WARNING, "d (it has no name)."),
    ],
)
def test_unusable_keys_are_reported(keys: list[ApiKey | DamagedKey], state: FindingState, said: str) -> None:
    finding = key_finding(keys, NOW)
    assert (finding.state, finding.detail) == (state, said)


@pytest.mark.parametrize(
    ("clock", "said"),
    [
        (1000.5, None),
        (1002.0 + 5.0, None),
        (1000.0 - 5.0, None),
        (1002.0 + 6.0, "b is 6 s from this host."),
        (1000.0 - 70.0, "b is 70 s from this host."),
    ],
)
def test_clocks_that_differ_are_reported(clock: float, said: str | None) -> None:
    nodes = [{"name": "a", "timestamp": 1_001_000}, {"name": "b", "timestamp": clock * 1000}]
    finding = clock_finding(nodes, 1000.0, 1002.0)
    assert finding.state is (FindingState.WARNING if said else FindingState.OK)
    assert said is None or finding.detail == said


@pytest.mark.parametrize(
    ("available", "roles", "is_reported"),
    [
        *(
            (500, ["data"], False),
            (150, ["data"], False),
            (149, ["data_hot"], True),
            (50, ["data"], True),
            (50, ["master"], False),
        )
    ],
)
def test_a_disk_near_the_flood_stage_is_reported(available: int, roles: list[str], is_reported: bool) -> None:
    disk = {"total_in_bytes": 1000, "available_in_bytes": available}
    nodes = [{"name": "full", "roles": roles, "fs": {"total": disk}}]
    finding = disk_finding(nodes, {"persistent": {FLOOD_STAGE: "90%"}})
    assert finding.state is (FindingState.WARNING if is_reported else FindingState.OK)
    assert ("full has" in finding.detail) is is_reported


@pytest.mark.parametrize(
    ("replicas", "data_nodes", "is_reported"), [("0", 1, False), ("0", 2, True), ("1", 3, False), ("1", 1, False)]
)
def test_an_index_without_a_replica_is_reported_if_there_is_room_for_one(
    replicas: str, data_nodes: int, is_reported: bool
) -> None:
    listings = {"listings-v0001": {"settings": {"index.number_of_replicas": replicas}}}
    indices = IndexInventory({"listings": listings, "teams": None})
    finding = replica_finding(indices, data_nodes)
    assert finding.state is (FindingState.WARNING if is_reported else FindingState.OK)
    assert ("listings-v0001" in finding.detail) is is_reported


def test_the_sum_counts_by_state_and_says_whether_all_can_be_served() -> None:
    states = [FindingState.OK, FindingState.OK, FindingState.WARNING, FindingState.UNKNOWN]
    assert findings_summary(Finding(subject="s", state=state) for state in states) == (
        "1 warning, 1 unknown, 2 ok. The service can serve."
    )
    assert (
        findings_summary([Finding(subject="s", state=FindingState.WRONG)])
        == "1 wrong. The service cannot serve everything."
    )


def _block_findings(name: str, settings: dict[str, str | None], meta: dict[str, str] | None = None) -> list[Finding]:
    connection = ConnectionSettings()
    names = [*map(connection.alias, RESOURCES), connection.keys_index, connection.control_index]
    facts = {"settings": settings, "mappings": {"_meta": meta or {}}, "aliases": {}}
    indices: dict[str, dict[str, Any]] = {alias: {} for alias in names} | {name: {f"{name}-v0001": facts}}
    return list(block_findings(IndexInventory(indices), connection))


def test_a_live_index_that_refuses_writes_is_reported_with_its_remedy() -> None:
    def found(meta: dict[str, str], blocked: str | None) -> list[Finding]:
        return _block_findings("teams", {"index.blocks.write": blocked}, meta)

    assert found({}, None) == found({"blocked_for": "teams-v0002"}, "false") == []
    (left,) = found({"blocked_for": "teams-v0002"}, "true")
    assert (left.subject, left.state) == ("teams", FindingState.WARNING)
    assert "the next update or rebuild lifts the block" in left.remedy
    (by_hand,) = found({}, "true")
    assert "`PUT teams-v0001/_settings`" in by_hand.remedy


@pytest.mark.parametrize("name", ["teams", "control", "api_keys"])
@pytest.mark.parametrize("block", ["index.blocks.read_only_allow_delete", "index.blocks.read_only"])
def test_each_block_of_each_index_is_reported(name: str, block: str) -> None:
    """A backup that was taken while disks were full brings their block back."""
    assert _block_findings(name, {block: "false"}) == []
    (finding,) = _block_findings(name, {block: "true"})
    assert f'`PUT {name}-v0001/_settings` with {{"{block}": null}}' in finding.remedy
    assert ("full" in finding.detail) == block.endswith("allow_delete")
