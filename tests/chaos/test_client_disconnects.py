"""A short run of the scenario of disconnecting clients."""

from tests.chaos.client_disconnects import hang_ups
from tests.network.proxy import proxied


async def test_disconnected_clients_leave_no_searches_behind(engine_url: str) -> None:
    # A search takes a few milliseconds here: without the proxy it may end before its client leaves. On a busy machine
    # it may begin late: each client stays until all searches are held.
    async with proxied([engine_url]) as [proxy]:
        outcome = await hang_ups([engine_url], clients=60, listings=1_000, proxy=proxy)
    assert outcome.violations == []
    # A connection with a cancelled request is closed, so that each client's search has had its own.
    assert proxy.accepted >= 60
