"""Short runs of what clients do: overload, hang up, hold connections through restarts. No figures are checked."""

from tests.chaos.client_disconnects import hang_ups
from tests.chaos.load_generator import OK, PAGE, REFUSED, SHOW, LoadPhase
from tests.chaos.overload import LoadRun, load
from tests.chaos.restarts import killed_workers, rolled
from tests.network.proxy import proxied
from tests.simulation.services import load_cluster

# More clients than slots and queue, on any machine.
_PLACES, _ROOM, _CLIENTS = 2, 2, 24


async def test_disconnected_clients_leave_no_searches_behind(engine_url: str) -> None:
    # A search takes a few milliseconds here: without the proxy it may end before its client leaves. On a busy machine
    # it may begin late: each client stays until all searches are held.
    async with proxied([engine_url]) as [proxy]:
        outcome = await hang_ups([engine_url], clients=60, listings=1_000, proxy=proxy)
    assert outcome.violations == []
    # A connection with a cancelled request is closed, so that each client's search has had its own.
    assert proxy.accepted >= 60


async def test_in_an_overload_every_response_is_correct_or_a_refusal(engine_url: str) -> None:
    # The deadline is far: it is the queue that refuses.
    async with (
        load_cluster([engine_url], 1_000) as stage,
        stage.service(concurrency=_PLACES, queue=_ROOM, deadline_seconds=120) as serving,
    ):
        done = await load(
            stage,
            serving,
            LoadPhase(seconds=2.0, shows=20.0, clients=_CLIENTS, least=20),
            LoadPhase(seconds=1.0, shows=20.0, clients=1),
            page_size=20,
        )
        log = serving.log.read_text()
    assert _outcomes(done, PAGE, 0) == {(OK, 200), (REFUSED, 503)}
    assert _outcomes(done, PAGE, 1) == {(OK, 200)}
    assert _outcomes(done, SHOW) == {(OK, 200)}
    # One line a second at most, however many are refused.
    assert len(done.of(PAGE, REFUSED)) > 10 * log.count("Refused ") > 0
    assert "ERROR" not in log


def _outcomes(done: LoadRun, kind: str, stretch: int | None = None) -> set[tuple[str, int]]:
    return {(sent.outcome, sent.status) for sent in done.of(kind, stretch=stretch)}


async def test_restarts_lose_no_request_and_kills_only_open_ones(engine_url: str) -> None:
    async with load_cluster([engine_url], 80) as stage:
        roll = await rolled(stage, rolls=1, consumers=8)
        assert (roll.wrong, roll.failed, roll.violations) == (0, 0, [])
        assert int(roll.figures["closed by the service"]) >= 8
        killed = await killed_workers(stage, kills=1, consumers=8)
        assert (killed.wrong, killed.violations) == (0, [])
        assert killed.failed <= 8
