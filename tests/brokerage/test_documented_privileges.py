"""All of the product over TLS on a real Elasticsearch; and the document of rights names every call that it makes."""

import re
from pathlib import Path

import pytest

from mappings import RESOURCES
from tests.brokerage.documented_privileges import documented_roles
from tests.brokerage.recorded_calls import (
    record_calls,
    run_audit_commands,
    run_deliveries,
    run_indexer,
    run_key_commands,
    run_service,
    run_subscription_commands,
)
from tests.deliver.receiver import receiving
from tests.internals import Internals
from tests.network.threads import in_thread

DOCUMENTED = documented_roles()


@pytest.mark.usefixtures("client")  # it removes the indices
def test_every_call_of_indexer_keys_service_and_doctor_goes_over_tls_and_is_documented(
    engine_url: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, internals: Internals
) -> None:
    monkeypatch.chdir(tmp_path)
    internals(fewest_deleted=1)
    # The same calls, less often: half a minute passes until Elasticsearch gives up what was just deleted.
    internals(compaction_longest_seconds=0.0)
    with record_calls(engine_url, prefix, tmp_path) as talk:
        asked = {"brokerage_indexer": run_indexer(talk, tmp_path)}
        key, asked["brokerage_keys"] = run_key_commands(talk)
        with in_thread(receiving()) as receiver:
            asked["brokerage_subscriptions"] = run_subscription_commands(talk, key, receiver.url)
            asked["brokerage_deliver"] = run_deliveries(talk, lambda: bool(receiver.accepted))
        asked["brokerage_deliver"] -= DOCUMENTED["brokerage_service"].calls.keys()
        # Nothing was recorded yet, which is a failure of `audit who`.
        asked["brokerage_audit"] = run_audit_commands(talk, code=1)
        statuses, by_service = run_service(talk, key)
        assert statuses["/companies"] == statuses["/teams"] == 200
        asked["brokerage_audit"] |= run_audit_commands(talk)
        talk.command("doctor", "--json", BROKERAGE_AUDIT_DAYS="1")
        by_service |= talk.calls()
        asked["brokerage_service_audit"] = {call for call in by_service if re.search(r" /audit\b", call)}
        asked["brokerage_service"] = by_service - asked["brokerage_service_audit"]
        # Both resources have three shards, as far as they have records for them.
        assert {"POST /{alias}/_search", "POST /{served}/_search"} <= by_service
        # Connections are used again: a certificate is verified once for many requests.
        assert talk.proxy.accepted * 5 < talk.requests
    for name, calls in asked.items():
        assert calls - DOCUMENTED[name].calls.keys() == set()
        assert calls


@pytest.mark.parametrize("name", DOCUMENTED)
def test_each_role_grants_what_the_calls_need_and_nothing_else(name: str) -> None:
    part = DOCUMENTED[name]
    assert part.granted() == part.needed()


def test_the_service_may_write_nothing_but_when_keys_were_used() -> None:
    granted = DOCUMENTED["brokerage_service"].granted()
    statistics = {("monitor", resource.alias) for resource in RESOURCES}
    assert {privilege for privilege in granted if privilege[0] not in {"read", "view_index_metadata"}} - statistics == {
        ("monitor", ""),
        ("index", "key_usage"),
    }
