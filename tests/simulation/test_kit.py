"""The kit in ten lines: a service behind a proxy, readers whose every page is judged, and a fault."""

from tests.simulation.requests import GOOD
from tests.simulation.scenario import SHORT, ground_at, run_scenario


async def test_readers_survive_a_network_that_resets_and_then_refuses_connections(engine_url: str) -> None:
    async with ground_at([engine_url], SHORT) as ground, run_scenario(ground, is_proxied=True) as play:
        [proxy] = play.proxies
        play.must(proxy.reset() > 0, "no connection was reset")
        began, _ = await play.read(0.3)
        proxy.refuse()
        refused = await play.seen(began, "/listings", "503")
        await proxy.heal()
        play.must(bool(refused), "nothing was refused while Elasticsearch was out of reach")
        play.must(bool(await play.seen(refused[-1].at, "/listings", GOOD)), "the listings did not come back")
    outcome = play.outcome("the only node resets and refuses connections")
    assert (outcome.wrong, outcome.violations) == (0, []), outcome
