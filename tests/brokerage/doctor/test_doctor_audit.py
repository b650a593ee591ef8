"""What `brokerage doctor` says of the audit."""

from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings
from service.app import build_services
from service.audit.capability import check_audit
from service.audit.store import AuditStore
from service.health.checks import FindingState
from tests.internals import Internals
from tests.service_settings import service_settings


async def test_it_names_what_keeps_the_audit_from_being_written(
    client: AsyncElasticsearch,
    reader: AsyncElasticsearch,
    connection: ConnectionSettings,
    internals: Internals,
) -> None:
    alias = connection.audit_index

    async def said(days: int) -> tuple[FindingState, str]:
        finding = await check_audit(build_services(reader, service_settings(audit_days=days), connection))
        return finding.state, f"{finding.problem} {finding.detail} {finding.remedy}"

    assert await said(0) == (FindingState.OK, " off (BROKERAGE_AUDIT_DAYS) ")
    state, text = await said(30)
    assert (state, "brokerage audit create" in text) == (FindingState.WARNING, True)
    await AuditStore(client, alias).create()
    state, text = await said(30)
    assert (state, "30 days are kept, 0.0 GB a day" in text) == (FindingState.OK, True)
    for setting in ("index.blocks.read_only_allow_delete", "index.blocks.write"):
        await client.indices.put_settings(index=alias, settings={setting: True})
        state, text = await said(30)
        assert (state, setting in text) == (FindingState.WARNING, True)
        await client.indices.put_settings(index=alias, settings={setting: None})
    # An empty index has some 250 bytes, which the first hour counts as a 24th of a day.
    internals(audit_warned_bytes_a_day=1_000)
    state, text = await said(30)
    assert (state, "0.0 GB a day, of which 30 days take 0 GB" in text) == (FindingState.WARNING, True)
    internals(audit_day_milliseconds=1e-9)
    state, text = await said(30)
    assert (state, "brokerage audit prune" in text) == (FindingState.WARNING, True)
