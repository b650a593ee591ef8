"""No key learns anything of a foreign record: neither that it is there nor how many there are.

Every operation x every identifier that it takes, in every form x whoever owns it x every kind of key x what else
narrows the request x the shape of the answer. `--soak` takes the whole product, every other run as many cases as hold
every pair of choices, and every operation with every owner and every key.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from service.parameters.fields import Text, Uuid
from service.resources import OPERATIONS
from tests.security.asking import ask, wrong
from tests.security.cases import FORMS, UNKNOWN, Case, Probe, asked, cases, covering, probes, scrambled, twins, value
from tests.security.oracle import IDENTIFIERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.world import World
    from tests.security.oracle import Estate

_AT_ONCE = 8


@dataclass
class Findings:
    """What the matrix found."""

    asked: int = 0
    compared: Counter[Probe] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)


async def _judge(world: World, estate: Estate, case: Case, findings: Findings) -> None:
    sent = value(estate, case)
    request, method = asked(estate, case, sent), "HEAD" if case.shape == "head" else "GET"
    verdict, answer = estate.verdict(request), await ask(world, request, method)
    findings.asked += 1
    findings.statuses[answer.status] += 1
    findings.leaks += [f"{case}: {text}" for text in wrong(request, verdict, answer)]
    if case.owner == UNKNOWN or case.owner in estate.readable[case.key]:
        return
    # The owner is foreign: the answer must be the one for an identifier that nobody has.
    for twin in twins(case.probe, sent):
        other = asked(estate, case, twin)
        if estate.verdict(other) != verdict:
            # A record of the key's own has this identifier too, or names its owner.
            continue
        findings.asked += 1
        findings.compared[case.probe] += 1
        if answer.told() != (await ask(world, other, method)).told(twin, instead=sent):
            findings.leaks.append(f"{case}: {sent!r} is told from {twin!r}")


@pytest.fixture(scope="module")
def product(estate: Estate) -> list[Case]:
    """Every case."""
    return list(cases(estate))


@pytest.fixture(scope="module")
def chosen(product: list[Case]) -> list[Case]:
    """The cases of every run."""
    return covering(product)


async def test_no_foreign_record_count_or_existence_leaks(
    walled: World, estate: Estate, product: list[Case], chosen: list[Case], amount: Callable[[int, int], int]
) -> None:
    chosen = [chosen, product][amount(0, 1)]
    findings, places = Findings(), asyncio.Semaphore(_AT_ONCE)

    async def judged(case: Case) -> None:
        async with places:
            await _judge(walled, estate, case, findings)

    await asyncio.gather(*map(judged, chosen))
    print(f"\nscope matrix: {len(chosen)} of {len(product)} cases, {findings.asked} requests,")
    print(f"{findings.compared.total()} comparisons, statuses {dict(findings.statuses)}, {len(findings.leaks)} leaks")
    assert findings.leaks == []
    assert findings.statuses.keys() == {200, 400, 403, 404}
    assert findings.compared.keys() == {probe for probe in probes() if probe.place != "nowhere"}


def test_every_identifier_of_every_operation_is_in_the_matrix() -> None:
    in_query = {(probe.path, probe.name) for probe in probes() if probe.place == "query"}
    assert in_query == {
        (operation.path, name)
        for operation in OPERATIONS
        for name, parameter in operation.schema.fields.items()
        if isinstance(parameter, Text | Uuid)
    }
    assert {probe.path for probe in probes() if probe.place == "path"} == {
        operation.path for operation in OPERATIONS if "{" in operation.path
    }
    assert {probe.name for probe in probes()} - {""} == FORMS.keys()


def test_nothing_of_the_source_is_what_the_matrix_takes_for_unknown(estate: Estate) -> None:
    names = {*IDENTIFIERS.values(), "numeric_id", "platform_agent_id"}
    records = [envelope for records in estate.source.values() for envelope in records]
    everything = {str(envelope["record"].get(name)) for envelope in records for name in names}
    everything |= {str(envelope.get("source_agent_id")) for envelope in records}
    for probe in probes():
        for company in estate.numbers:
            sent = value(estate, Case(probe, company, "all", "the owner", "plain"))
            assert not sent or scrambled(sent) not in everything
