"""A siege in miniature: every attack is made, the service stands, and honest keys read what is right."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.siege.bombs import BombOutcome, bomb
from tests.siege.honest_readers import PEACE, SIEGE, HonestReport
from tests.siege.judgement import judged
from tests.siege.siege_run import ATTACKS, FAILED_ATTACKS, SiegeObservations, SiegeScale, besiege
from tests.siege.target import SiegeTarget
from tests.simulation.services import load_cluster

_SMALL = SiegeScale(peace=0.5, siege=1.5, rounds=2, connections=3, bomb_bytes=16_000_000, bomb_seconds=10.0)
_MEGABYTE = 1_000_000


async def test_in_a_siege_every_attack_is_made_and_honest_keys_read_what_is_right(engine_url: str) -> None:
    async with load_cluster([engine_url], 200) as stage:
        found = await besiege(stage, _SMALL)
    made = {attack for attack, outcomes in found.target.outcomes.items() if outcomes} - {FAILED_ATTACKS}
    assert len(made) == len(ATTACKS)
    assert not [reason for reason in found.target.outcomes["strangers"] if reason.startswith("2")]
    assert not found.target.outcomes["misspelled floods"]["200"]
    assert not found.target.outcomes["forms that never arrive"]["200"]
    assert found.target.withdrawals
    assert found.is_ready_after
    assert "Traceback" not in found.log
    assert found.honest.wrong == 0
    assert found.honest.answers[PEACE]
    assert {"service", "attackers"} < found.cores[SIEGE].keys() == found.cores[PEACE].keys()
    assert found.rest.keys() == found.peak.keys()
    assert [one.command for one in found.bombs] == [
        "brokerage pull",
        "brokerage pull of a file",
        "brokerage index replicate",
    ]


def observations(**changes: object) -> SiegeObservations:
    """Return observations without a violation."""
    honest = HonestReport(answers={PEACE: [0.01] * 100, SIEGE: [0.02] * 100}, walks=3)
    target = SiegeTarget("http://127.0.0.1:1", (), 1, outcomes={"strangers": Counter({"401 invalid_key": 7})})
    bombs = [BombOutcome("brokerage pull", 1, 80.0, "The answer is too large.", is_traceback=False)]
    given = {"rest": {1: 100 * _MEGABYTE}, "peak": {1: 150 * _MEGABYTE}, "bombs": bombs} | changes
    return SiegeObservations(honest, target, **given)  # type: ignore[arg-type]


def test_a_siege_that_the_service_withstands_has_no_violations_and_all_figures() -> None:
    outcome = judged(observations(), 8.0)
    assert outcome.violations == []
    assert (outcome.requests, outcome.failed) == (100, 0)
    assert outcome.figures["p99 ratio"] == "2.0 (at most 3)"
    assert outcome.figures["memory of the workers"] == "100 -> 150 MB: 1.5 times (at most 2)"
    assert outcome.figures["strangers"] == "401 invalid_key: 7"
    assert outcome.figures["bomb, brokerage pull"] == "exit 1, 80 MB"


def _slow(found: SiegeObservations) -> None:
    found.honest.answers[SIEGE] = [0.06] * 100


def _failing(found: SiegeObservations) -> None:
    found.honest.failures[SIEGE] = {"503 overloaded": 2}


def _wrong(found: SiegeObservations) -> None:
    found.honest.wrong = 1


def _grown(found: SiegeObservations) -> None:
    found.peak[1] = 201 * _MEGABYTE


def _withdrawn(found: SiegeObservations) -> None:
    found.target.withdrawals["/v1/snapshot"].append(5.3)


def _traced(found: SiegeObservations) -> None:
    found.log = "Traceback (most recent call last):"


def _swollen(found: SiegeObservations) -> None:
    found.bombs[0] = BombOutcome("brokerage pull", None, 900.0, "", is_traceback=False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_slow, "6.0 times that in peace"),
        (_failing, "2 answers to honest keys failed"),
        (_wrong, "1 walks of honest keys were wrong"),
        (_grown, "2.0 times its memory at rest"),
        (_withdrawn, "A revoked key received /v1/snapshot for 5.3 s"),
        (_traced, "logged a traceback"),
        (_swollen, "took 900 MB"),
    ],
)
def test_what_must_not_be_is_a_violation(change: Callable[[SiegeObservations], None], said: str) -> None:
    found = observations()
    change(found)
    assert said in " ".join(judged(found, 8.0).violations)


def test_a_bomb_is_small_on_the_wire() -> None:
    assert len(bomb(400 * _MEGABYTE)) < _MEGABYTE
