"""The result of a scenario: a row of docs/reliability.md."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class ScenarioResult:
    """One fault and its effect on consumers.

    `wrong` counts incorrect responses: a page that lacked or repeated a record, a wrong `FinalPage`, a
    record of another state. `failed` counts requests that ended with a 5xx status or a broken connection.
    """

    fault: str  # what was done, such as "SIGKILL of one of three nodes during 20 walks"
    requests: int
    wrong: int
    failed: int
    outage_seconds: float  # the longest time without a good answer
    figures: dict[str, str] = field(default_factory=dict)  # what else was measured, by its name
    violations: list[str] = field(default_factory=list)  # a sentence for each thing that must not be; none: it holds
