"""A short run of the scenario of disconnecting clients."""

from __future__ import annotations

from tests.chaos.client_disconnects import hang_ups


async def test_disconnected_clients_leave_no_searches_behind(engine_url: str) -> None:
    # Earlier than most responses: a node that has run for minutes sends pages of so few listings within 5 ms.
    outcome = await hang_ups([engine_url], clients=60, listings=1_000, patience=0.002)
    assert outcome.violations == []
