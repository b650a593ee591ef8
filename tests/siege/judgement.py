"""The figures of a siege, and what must not be."""

from collections.abc import Iterator

from tests.siege.bombs import BombOutcome
from tests.siege.honest_readers import PEACE, SIEGE
from tests.siege.siege_run import SiegeObservations
from tests.simulation.requests import percentile
from tests.simulation.results import ScenarioResult

# The p99 in a siege compared with that in peace, and a worker's memory compared with that at rest.
_MAX_SLOWDOWN = 3.0
_MAX_GROWTH = 2.0
# For which a key that was revoked may receive anything: the default of BROKERAGE_REVOCATION_SECONDS.
_MAX_WITHDRAWAL_SECONDS = 5.0
# A client that reads a bomb in parts needs about 100 MB.
_MAX_CLIENT_MB = 300.0
_MEGABYTE = 1e6
_SHOWN_CHARACTERS = 4_000


def judged(found: SiegeObservations, seconds: float) -> ScenarioResult:
    """Return the result: `failed` and `requests` are those of the honest keys."""
    failed = sum(found.honest.failures[SIEGE].values())
    answers = found.honest.answers
    return ScenarioResult(
        fault=f"all attacks for {seconds:g} s, while three honest keys read",
        requests=len(answers[SIEGE]) + failed,
        wrong=found.honest.wrong,
        failed=failed,
        outage_seconds=found.honest.longest_gap,
        figures=dict(_figures(found)),
        violations=list(_violations(found, failed)),
    )


def slowdown(found: SiegeObservations) -> float:
    """Return the p99 of honest answers in the siege as a multiple of that in peace."""
    peace = percentile(found.honest.answers[PEACE], 99)
    return percentile(found.honest.answers[SIEGE], 99) / peace if peace else 0.0


def growth(found: SiegeObservations) -> float:
    """Return the largest memory of a worker in the siege as a multiple of its memory at rest."""
    return max((found.peak.get(pid, 0) / rest for pid, rest in found.rest.items() if rest), default=0.0)


def _figures(found: SiegeObservations) -> Iterator[tuple[str, str]]:
    for phase in (PEACE, SIEGE):
        answers, failures = found.honest.answers[phase], found.honest.failures[phase]
        reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(failures.items())) or "none"
        times = f"p50 {percentile(answers, 50) * 1000:.0f} ms, p99 {percentile(answers, 99) * 1000:.0f} ms"
        yield f"honest keys in {phase}", f"{len(answers)} pages, {times}; failed: {reasons}"
    yield "p99 ratio", f"{slowdown(found):.1f} (at most {_MAX_SLOWDOWN:g})"
    memory = ", ".join(
        f"{rest / _MEGABYTE:.0f} -> {found.peak.get(pid, 0) / _MEGABYTE:.0f} MB" for pid, rest in found.rest.items()
    )
    yield "memory of the workers", f"{memory}: {growth(found):.1f} times (at most {_MAX_GROWTH:g})"
    for phase, cores in found.cores.items():
        used = ", ".join(f"{name} {number:.2f}" for name, number in cores.items())
        yield f"processors used in {phase}", used
    for attack, outcomes in sorted(found.target.outcomes.items()):
        yield attack, ", ".join(f"{reason}: {count:,}" for reason, count in outcomes.most_common())
    for read, lasted in sorted(found.target.withdrawals.items()):
        told = f"{len(lasted)} keys, at most {max(lasted):.1f} s (allowed: {_MAX_WITHDRAWAL_SECONDS:g})"
        yield f"revoked keys received {read}", told
    for bomb in found.bombs:
        ended = "still reading" if bomb.exit_code is None else f"exit {bomb.exit_code}"
        yield f"bomb, {bomb.command}", f"{ended}, {bomb.peak:.0f} MB"


def _violations(found: SiegeObservations, failed: int) -> Iterator[str]:
    if failed:
        yield f"{failed} answers to honest keys failed."
    if found.honest.wrong:
        yield f"{found.honest.wrong} walks of honest keys were wrong."
    if slowdown(found) > _MAX_SLOWDOWN:
        yield f"The p99 of honest keys is {slowdown(found):.1f} times that in peace."
    if growth(found) > _MAX_GROWTH:
        yield f"A worker grew to {growth(found):.1f} times its memory at rest."
    for kind, times in found.target.withdrawals.items():
        if max(times) > _MAX_WITHDRAWAL_SECONDS:
            yield f"A revoked key received {kind} for {max(times):.1f} s."
    if (at := found.log.find("Traceback")) >= 0:
        yield f"The service logged a traceback: {found.log[at : at + _SHOWN_CHARACTERS]}"
    for bomb in found.bombs:
        yield from _complaints(bomb)


def _complaints(bomb: BombOutcome) -> Iterator[str]:
    if bomb.peak > _MAX_CLIENT_MB:
        yield f"{bomb.command} took {bomb.peak:.0f} MB for a bomb."
    if bomb.is_traceback:
        yield f"{bomb.command} ended with a traceback: {bomb.last_line[:100]}"
    if bomb.exit_code in {None, 0}:
        yield f"{bomb.command} did not refuse a bomb."
