"""A group of arms, measured round by round. An arm that fails is reported and does not affect the others."""

from dataclasses import dataclass

from bench.arms import GROUPS, Arm
from bench.measure import Meter, Taken
from bench.progress import Progress
from bench.results import Results
from bench.templates import Templates


@dataclass(frozen=True)
class Rounds:
    """What all groups are measured with."""

    meter: Meter
    results: Results
    progress: Progress

    async def group(self, name: str, templates: Templates) -> None:
        """Measure the arms of a group and write them into the results."""
        taken = [found for arm in GROUPS[name] if (found := await self._begin(name, arm, templates)) is not None]
        for number in range(-self.meter.size.warm_up, 0):
            taken = await self._turn(name, taken, number)
        for each in taken:
            each.forget()
        count = self.meter.size.rounds[name]
        for number in range(count):
            taken = await self._turn(name, taken, number)
            self.progress.step(name, number + 1, count)
        self.results.groups[name] = {each.arm.name: each.measured() for each in taken}

    async def _begin(self, name: str, arm: Arm, templates: Templates) -> Taken | None:
        try:
            taken = Taken(arm, templates.of(arm))
            await self.meter.probe(taken.template)
        except Exception as error:
            self._lost(name, arm, error)
            return None
        return taken

    async def _turn(self, name: str, taken: list[Taken], number: int) -> list[Taken]:
        """Ask every arm once; each round begins with another one. Return those that did not fail."""
        failed: list[Taken] = []
        begin = number % len(taken) if taken else 0
        for each in taken[begin:] + taken[:begin]:
            try:
                await self.meter.round(each, number)
            except Exception as error:
                self._lost(name, each.arm, error)
                failed.append(each)
        return [each for each in taken if each not in failed]

    def _lost(self, name: str, arm: Arm, error: Exception) -> None:
        why = self.results.absent[f"{name}: {arm.name}"] = reason(error)
        self.progress.report(f"{name}: {arm.name} is absent: {why}")


def reason(error: BaseException) -> str:
    """Return the message of an error; of several errors of concurrent tasks, that of the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
