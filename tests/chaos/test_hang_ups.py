"""The scenario of clients that hang up, in short."""

from __future__ import annotations

from tests.chaos.hang_ups import hang_ups


async def test_nothing_stays_behind_of_clients_that_hang_up(engine_url: str) -> None:
    # Sooner than any machine answers: 50 ms are enough for a page of so few listings.
    outcome = await hang_ups([engine_url], clients=60, listings=1_000, patience=0.005)
    assert outcome.violations == []
