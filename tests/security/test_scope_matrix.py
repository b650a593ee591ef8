"""No key learns anything of a foreign record: neither that it is there nor how many there are.

Every operation x every identifier that it takes, in every form x every owner x every kind of key x what else
narrows the request x the shape of the answer. `--soak` takes the whole product, every other run as many cases as hold
every pair of choices, and every operation with every owner and every key.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from service.parameters import Text, Uuid
from service.resources import OPERATIONS
from tests.contract.world import World
from tests.security.expected_access import IDENTIFIERS, AccessModel
from tests.security.matrix_http import send_compatible, send_request, violations
from tests.security.scope_matrix import (
    FORMS,
    UNKNOWN,
    IdentifierProbe,
    MatrixCase,
    case_identifier,
    case_request,
    cases,
    covering,
    probes,
    scrambled,
    unknown_twins,
)

_AT_ONCE = 8


@dataclass
class Findings:
    """What the matrix found."""

    asked: int = 0
    compared: Counter[IdentifierProbe] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)


async def _judge(world: World, estate: AccessModel, case: MatrixCase, findings: Findings) -> None:
    sent = case_identifier(estate, case)
    request, method = case_request(estate, case, sent), "HEAD" if case.shape == "head" else "GET"
    verdict, answer = estate.verdict(request), await send_request(world, request, method)
    findings.asked += 1
    findings.statuses[answer.status] += 1
    findings.leaks += [f"{case}: {text}" for text in violations(request, verdict, answer)]
    if case.owner == UNKNOWN or (case.owner in estate.readable[case.key] and not _is_withheld(estate, case)):
        return
    # The owner is foreign, or the listing is withheld: the response must be the one for an unknown identifier.
    for twin in unknown_twins(case.probe, sent):
        other = case_request(estate, case, twin)
        if estate.verdict(other) != verdict:
            # A record of the key's own has this identifier too, or names its owner.
            continue
        findings.asked += 1
        findings.compared[case.probe] += 1
        if answer.comparable() != (await send_request(world, other, method)).comparable(twin, instead=sent):
            findings.leaks.append(f"{case}: {sent!r} differs from {twin!r}")


def _is_withheld(estate: AccessModel, case: MatrixCase) -> bool:
    """Return whether the identifier of a case is that of a listing that the licence of its key withholds."""
    if not case.probe.name.endswith("platform_listing_id"):
        return False
    return estate.withholds(case.key, estate.of(case.probe.path.split("/")[1], [case.owner])[0])


@pytest.fixture(scope="module")
def product(estate: AccessModel) -> list[MatrixCase]:
    """Every case."""
    return list(cases(estate))


@pytest.fixture(scope="module")
def chosen(product: list[MatrixCase]) -> list[MatrixCase]:
    """The cases of every run."""
    return covering(product)


async def test_no_foreign_record_count_or_existence_leaks(
    walled: World,
    estate: AccessModel,
    product: list[MatrixCase],
    chosen: list[MatrixCase],
    amount: Callable[[int, int], int],
) -> None:
    chosen = [chosen, product][amount(0, 1)]
    findings, places = Findings(), asyncio.Semaphore(_AT_ONCE)

    async def judged(case: MatrixCase) -> None:
        async with places:
            await _judge(walled, estate, case, findings)

    await asyncio.gather(*map(judged, chosen))
    print(f"\nscope matrix: {len(chosen)} of {len(product)} cases, {findings.asked} requests,")
    print(f"{findings.compared.total()} comparisons, statuses {dict(findings.statuses)}, {len(findings.leaks)} leaks")
    assert findings.leaks == []
    assert findings.statuses.keys() == {200, 400, 403, 404}
    assert findings.compared.keys() == {probe for probe in probes() if probe.place != "nowhere"}


async def test_the_compatible_profile_opens_nothing(
    walled: World, estate: AccessModel, chosen: list[MatrixCase], amount: Callable[[int, int], int]
) -> None:
    """Repeated identifiers aside, where a show accepts more spellings, every answer is that of the contract's API."""
    asked = [case_request(estate, case, case_identifier(estate, case)) for case in chosen[:: amount(3, 1)]]
    wrong = [
        f"{request}: {text}"
        for request in asked
        for text in violations(request, estate.verdict(request), await send_compatible(walled, request))
    ]
    assert wrong == []


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
    assert {probe.name for probe in probes()} >= FORMS.keys()


def test_nothing_of_the_source_is_what_the_matrix_takes_for_unknown(estate: AccessModel) -> None:
    names = {*IDENTIFIERS.values(), "numeric_id", "platform_agent_id"}
    records = [envelope for records in estate.source.values() for envelope in records]
    everything = {str(envelope["record"].get(name)) for envelope in records for name in names}
    everything |= {str(envelope.get("source_agent_id")) for envelope in records}
    for probe in probes():
        for company in estate.numbers:
            sent = case_identifier(estate, MatrixCase(probe, company, "all", "the owner", "plain"))
            assert not sent or scrambled(sent) not in everything
