"""A short real overload: responses are correct, excess requests are refused, and shows succeed."""

from tests.chaos.load_generator import OK, PAGE, REFUSED, SHOW, LoadPhase
from tests.chaos.loaded_service import load_cluster
from tests.chaos.overload import LoadRun, load

LISTINGS = 1_000
# More clients than slots and queue, on any machine.
PLACES, ROOM, CLIENTS = 2, 2, 24


async def test_in_an_overload_every_response_is_correct_or_a_refusal(engine_url: str) -> None:
    # The deadline is far: it is the queue that refuses.
    async with (
        load_cluster([engine_url], LISTINGS) as stage,
        stage.service(concurrency=PLACES, queue=ROOM, deadline_seconds=120) as serving,
    ):
        done = await load(
            stage,
            serving,
            LoadPhase(seconds=2.0, shows=20.0, clients=CLIENTS, least=20),
            LoadPhase(seconds=1.0, shows=20.0, clients=1),
            page_size=20,
        )
        log = serving.log.read_text()
    assert outcomes(done, PAGE, 0) == {(OK, 200), (REFUSED, 503)}
    assert outcomes(done, PAGE, 1) == {(OK, 200)}
    assert outcomes(done, SHOW) == {(OK, 200)}
    # One line a second at most, however many are refused.
    assert len(done.of(PAGE, REFUSED)) > 10 * log.count("Refused ") > 0
    assert "ERROR" not in log


def outcomes(done: LoadRun, kind: str, stretch: int | None = None) -> set[tuple[str, int]]:
    """Return the outcomes of the requests of a kind."""
    return {(sent.outcome, sent.status) for sent in done.of(kind, stretch=stretch)}
