"""A short overload on the real thing: whatever is answered is right, the excess is told so, and shows get in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.arrivals import OK, PAGE, REFUSED, SHOW, Stretch
from tests.chaos.overload import load
from tests.chaos.stage import staged

if TYPE_CHECKING:
    from tests.chaos.overload import Load

LISTINGS = 1_000
# More clients than places and room to wait, whatever the machine can do.
PLACES, ROOM, CLIENTS = 2, 2, 24


async def test_in_an_overload_every_answer_is_right_or_a_refusal(engine_url: str) -> None:
    async with staged([engine_url], LISTINGS) as stage, stage.service(concurrency=PLACES, queue=ROOM) as serving:
        done = await load(
            stage,
            serving,
            Stretch(seconds=2.0, shows=20.0, clients=CLIENTS),
            Stretch(seconds=1.0, shows=20.0, clients=1),
            page_size=20,
        )
        log = serving.log.read_text()
    assert outcomes(done, PAGE, 0) == {(OK, 200), (REFUSED, 503)}
    assert outcomes(done, PAGE, 1) == {(OK, 200)}
    assert outcomes(done, SHOW) == {(OK, 200)}
    # One line a second at most, however many are refused.
    assert len(done.of(PAGE, REFUSED)) > 10 * log.count("refused") > 0
    assert "ERROR" not in log


def outcomes(done: Load, kind: str, stretch: int | None = None) -> set[tuple[str, int]]:
    """Return what requests of a kind came to."""
    return {(sent.outcome, sent.status) for sent in done.of(kind, stretch=stretch)}
