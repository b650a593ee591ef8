"""What `brokerage doctor` says of TLS, of credentials and of rights, well or not."""

import json
from pathlib import Path
from typing import Any

import pytest

from brokerage.doctor.connection_checks import (
    certificate_finding,
    plain_finding,
    privilege_findings,
    privileges_request,
)
from cluster.connection import ConnectionSettings
from service.health.checks import FindingState
from tests.brokerage.doctor.test_doctor_command import findings
from tests.brokerage.documented_privileges import documented_roles, privileges
from tests.brokerage.recorded_calls import record_calls
from tests.brokerage.security_front import with_security

PARTS = documented_roles()
SERVICE = PARTS["brokerage_service"].role
SUPERUSER = {"cluster": ["all"], "indices": [{"names": ["*"], "privileges": ["all"]}]}
CREDENTIALS = {"BROKERAGE_ELASTICSEARCH_USERNAME": "reader", "BROKERAGE_ELASTICSEARCH_PASSWORD": "hush"}
DAY = 86_400


def without(right: str, name: str) -> dict[str, Any]:
    """Return the service's role less one privilege on one index."""
    entries = [
        {"names": [alias], "privileges": [has for has in entry["privileges"] if (has, alias) != (right, name)]}
        for entry in SERVICE["indices"]
        for alias in entry["names"]
    ]
    return {"cluster": [has for has in SERVICE["cluster"] if (has, "") != (right, name)], "indices": entries}


def test_the_documented_role_is_all_that_is_needed_and_no_more(engine_url: str, prefix: str) -> None:
    with with_security(engine_url, prefix, SERVICE) as url:
        found = findings({"ELASTICSEARCH_URL": url, "BROKERAGE_INDEX_PREFIX": prefix, **CREDENTIALS}, 1)
    assert "indices" in found  # without any index of the installation
    assert not {"user", "rights", "tls"} & found.keys()


@pytest.mark.parametrize(
    ("role", "state", "said"),
    [
        (SERVICE, FindingState.OK, "all required ones, and no more"),
        (without("read", "listings"), FindingState.WRONG, "some are missing. `read` on t-listings."),
        (
            without("view_index_metadata", "control"),
            FindingState.WARNING,
            "some are missing. `view_index_metadata` on t-control.",
        ),
        (
            without("read", "teams-served-*"),
            FindingState.WARNING,
            "some are missing for indices of several shards. `read` on t-teams-served-*. Requests fail once",
        ),
        (without("index", "key_usage"), FindingState.WARNING, "some are missing. `index` on t-key_usage."),
        (without("monitor", ""), FindingState.WARNING, "some are missing. `monitor` on the cluster."),
        (SUPERUSER, FindingState.WARNING, "it has all privileges"),
        (
            {**SERVICE, "indices": [*SERVICE["indices"], {"names": ["listings"], "privileges": ["write"]}]},
            FindingState.WARNING,
            "it can write indices that it only reads. t-listings.",
        ),
    ],
)
def test_a_missing_right_and_one_too_many_are_named(role: dict[str, Any], state: FindingState, said: str) -> None:
    connection = ConnectionSettings(prefix="t-")
    asked: dict[str, Any] = {"cluster": ["monitor", "all"], "index": privileges_request(connection)}
    (finding,) = privilege_findings(privileges(role, asked, "t-"), connection)
    assert finding.state is state
    assert said in f"{finding.problem}. {finding.detail}"
    assert ("brokerage_service" in finding.remedy) is (state is not FindingState.OK)


@pytest.mark.parametrize(
    ("given", "problem", "said"),
    [
        (CREDENTIALS, "Elasticsearch rejects the credentials", "BROKERAGE_ELASTICSEARCH_PASSWORD"),
        ({"BROKERAGE_ELASTICSEARCH_API_KEY": "aHVzaA"}, "Elasticsearch rejects the credentials", "_API_KEY"),
        ({}, "Elasticsearch requires credentials", "None are set."),
    ],
)
def test_refused_credentials_are_wrong_and_not_an_outage(
    engine_url: str, given: dict[str, str], problem: str, said: str
) -> None:
    with with_security(engine_url, "", None) as url:
        found = findings({"ELASTICSEARCH_URL": url, **given}, 1)
    assert found.keys() == {"user"}
    assert found["user"]["problem"] == problem
    assert said in found["user"]["detail"]
    assert "hush" not in str(found)


def test_tls_is_reported_with_how_it_is_verified(engine_url: str, prefix: str, tmp_path: Path) -> None:
    with record_calls(engine_url, prefix, tmp_path) as talk:
        found = {finding["subject"]: finding for finding in json.loads(talk.command("doctor", "--json", code=1))}
        assert found["tls"]["detail"].startswith("verified by BROKERAGE_ELASTICSEARCH_CA_CERTS, ")
        unverified = findings(talk.environment, 3)["elasticsearch"]
        assert "set BROKERAGE_ELASTICSEARCH_CA_CERTS or BROKERAGE_ELASTICSEARCH_FINGERPRINT" in unverified["detail"]
        plain = findings({"ELASTICSEARCH_URL": talk.proxy.url.replace("https", "http")}, 3)["elasticsearch"]
        assert plain["remedy"] == "It speaks TLS: use https:// in ELASTICSEARCH_URL."


@pytest.mark.parametrize(("days", "state"), [(400, FindingState.OK), (21, FindingState.OK), (20, FindingState.WARNING)])
def test_a_certificate_that_expires_soon_is_reported(days: int, state: FindingState) -> None:
    ends = {"https://a:9200": 1000.0 * DAY, "https://b:9200": (days + 0.5) * DAY}
    finding = certificate_finding(ends, "the system", 0.0)
    assert finding.state is state
    assert f"{days} days" in finding.detail


@pytest.mark.parametrize(
    ("url", "credentials", "said"),
    [
        ("http://127.0.0.1:9200", {"api_key": "k"}, None),
        ("http://[::1]:9200", {}, None),
        ("http://localhost:9200", {}, None),
        ("http://node.example:9200", {}, "Key hashes and all data"),
        ("http://node.example:9200", {"api_key": "k"}, "Credentials and all data"),
        ("http://u:p@node.example:9200", {}, "Credentials and all data"),
    ],
)
def test_credentials_in_plain_text_are_reported(url: str, credentials: dict[str, str], said: str | None) -> None:
    finding = plain_finding(ConnectionSettings(url=(url,), allow_http=True, **credentials))
    assert finding.state is (FindingState.WARNING if said else FindingState.OK)
    assert said is None or said in finding.detail
