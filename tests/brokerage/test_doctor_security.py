"""What `brokerage doctor` says of TLS, of credentials and of rights, well or not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from brokerage.doctor_rights import rights_asked, rights_findings
from brokerage.doctor_tls import certificate_finding, plain_finding
from cluster.connection import ConnectionSettings
from service.soundness import State
from tests.brokerage.rights import documented, privileges
from tests.brokerage.security import secured
from tests.brokerage.talk import talking
from tests.brokerage.test_doctor import findings

if TYPE_CHECKING:
    from pathlib import Path

PARTS = documented()
SERVICE = PARTS["brokerage_service"].role
SUPERUSER = {"cluster": ["all"], "indices": [{"names": ["*"], "privileges": ["all"]}]}
CREDENTIALS = {"BROKERAGE_ELASTICSEARCH_USERNAME": "reader", "BROKERAGE_ELASTICSEARCH_PASSWORD": "hush"}
DAY = 86_400


def without(right: str, name: str) -> dict[str, Any]:
    """Return the service's role less one privilege on one index."""
    entries = [
        {"names": [each], "privileges": [has for has in entry["privileges"] if (has, each) != (right, name)]}
        for entry in SERVICE["indices"]
        for each in entry["names"]
    ]
    return {"cluster": [has for has in SERVICE["cluster"] if (has, "") != (right, name)], "indices": entries}


def test_the_documented_role_is_all_that_is_needed_and_no_more(engine_url: str, prefix: str) -> None:
    with secured(engine_url, prefix, SERVICE) as url:
        told = findings({"ELASTICSEARCH_URL": url, "BROKERAGE_INDEX_PREFIX": prefix, **CREDENTIALS}, 1)
    assert "indices" in told  # an empty corner
    assert not {"user", "rights", "tls"} & told.keys()


@pytest.mark.parametrize(
    ("role", "state", "said"),
    [
        (SERVICE, State.OK, "all that are needed, and no more"),
        (without("read", "listings"), State.WRONG, "some are missing. `read` on t-listings."),
        (
            without("view_index_metadata", "control"),
            State.WARNING,
            "some are missing. `view_index_metadata` on t-control.",
        ),
        (without("index", "key_usage"), State.WARNING, "some are missing. `index` on t-key_usage."),
        (without("monitor", ""), State.WARNING, "some are missing. `monitor` on the cluster."),
        (SUPERUSER, State.WARNING, "it may do everything"),
        (
            {**SERVICE, "indices": [*SERVICE["indices"], {"names": ["listings"], "privileges": ["write"]}]},
            State.WARNING,
            "it may change what it only reads. t-listings.",
        ),
    ],
)
def test_a_missing_right_and_one_too_many_are_named(role: dict[str, Any], state: State, said: str) -> None:
    connection = ConnectionSettings(prefix="t-")
    asked: dict[str, Any] = {"cluster": ["monitor", "all"], "index": rights_asked(connection)}
    (finding,) = rights_findings(privileges(role, asked, "t-"), connection)
    assert finding.state is state
    assert said in f"{finding.problem}. {finding.detail}"
    assert ("brokerage_service" in finding.remedy) is (state is not State.OK)


@pytest.mark.parametrize(
    ("given", "problem", "said"),
    [
        (CREDENTIALS, "Elasticsearch refuses the credentials", "BROKERAGE_ELASTICSEARCH_PASSWORD"),
        ({"BROKERAGE_ELASTICSEARCH_API_KEY": "aHVzaA"}, "Elasticsearch refuses the credentials", "_API_KEY"),
        ({}, "Elasticsearch asks for credentials", "None are set."),
    ],
)
def test_refused_credentials_are_wrong_and_not_an_outage(
    engine_url: str, given: dict[str, str], problem: str, said: str
) -> None:
    with secured(engine_url, "", None) as url:
        told = findings({"ELASTICSEARCH_URL": url, **given}, 1)
    assert told.keys() == {"user"}
    assert told["user"]["problem"] == problem
    assert said in told["user"]["detail"]
    assert "hush" not in str(told)


def test_tls_is_told_with_how_it_is_verified(engine_url: str, prefix: str, tmp_path: Path) -> None:
    with talking(engine_url, prefix, tmp_path) as talk:
        told = {each["subject"]: each for each in json.loads(talk.command("doctor", "--json", code=1))}
        assert told["tls"]["detail"].startswith("verified by BROKERAGE_ELASTICSEARCH_CA_CERTS, ")
        unverified = findings(talk.environment, 3)["elasticsearch"]
        assert "set BROKERAGE_ELASTICSEARCH_CA_CERTS or BROKERAGE_ELASTICSEARCH_FINGERPRINT" in unverified["detail"]
        plain = findings({"ELASTICSEARCH_URL": talk.forwarder.url.replace("https", "http")}, 3)["elasticsearch"]
        assert plain["remedy"] == "It speaks TLS: ELASTICSEARCH_URL must begin with https://."


@pytest.mark.parametrize(("days", "state"), [(400, State.OK), (21, State.OK), (20, State.WARNING)])
def test_a_certificate_that_ends_soon_is_told(days: int, state: State) -> None:
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
        ("http://node.example:9200", {}, "The keys' hashes and all data"),
        ("http://node.example:9200", {"api_key": "k"}, "The credentials and all data"),
        ("http://u:p@node.example:9200", {}, "The credentials and all data"),
    ],
)
def test_credentials_in_the_clear_are_told(url: str, credentials: dict[str, str], said: str | None) -> None:
    finding = plain_finding(ConnectionSettings(url=(url,), **credentials))
    assert finding.state is (State.WARNING if said else State.OK)
    assert said is None or said in finding.detail
