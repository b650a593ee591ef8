"""Requests that schemathesis makes up from the document, sent to a running service, and what came of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import requests
import schemathesis
from schemathesis.engine import Status, events, from_schema

_INVALID_ACCEPTED = "negative_data_rejection"
# A well-formed value may still name nothing, so a valid request is answered 400 too: the parser has tests of its own.
_DISABLED_CHECKS = ("positive_data_acceptance",)
# With more, the interpreter itself failed now and then in `ast` ("AST constructor recursion depth mismatch").
_WORKERS = 1
_TIMEOUT_SECONDS = 120


@dataclass
class FuzzFindings:
    """How many requests were sent and answered with what, and every check that an answer failed."""

    statuses: Counter[int] = field(default_factory=Counter)
    failures: dict[str, list[str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """How many requests were answered."""
        return self.statuses.total()

    @property
    def server_errors(self) -> int:
        """How many answers were 5xx."""
        return sum(count for status, count in self.statuses.items() if status >= 500)

    def failed(self, check: str) -> int:
        """Return how many answers failed a check."""
        return len(self.failures.get(check, ()))

    def summary(self) -> str:
        """Return one line of figures."""
        by_status = ", ".join(f"{status}: {count:,}" for status, count in sorted(self.statuses.items()))
        return (
            f"{self.requests:,} requests ({by_status}); 5xx: {self.server_errors}; undocumented status: "
            f"{self.failed('status_code_conformance')}; accepted invalid: {self.failed(_INVALID_ACCEPTED)}; "
            f"other failures: { {name: len(found) for name, found in self.failures.items()} }"
        )


@dataclass(frozen=True)
class FuzzRun:
    """How to fuzz: where, with which key, with which values that exist, and with how many requests an operation."""

    origin: str
    key: str
    known: Mapping[str, Sequence[str]]
    per_operation: int
    boundaries: bool = True
    seed: int | None = None

    def run(self, document: dict[str, Any]) -> FuzzFindings:
        """Send everything and judge every answer."""
        schema = schemathesis.openapi.from_dict(with_absolute_paths(document), config=self._config())
        findings = FuzzFindings()
        for event in from_schema(schema).execute():
            if isinstance(event, events.ScenarioFinished):
                _record_scenario(findings, event)
            elif isinstance(event, events.NonFatalError | events.FatalError):
                findings.errors.append(str(event))
        return findings

    def _config(self) -> schemathesis.Config:
        config: dict[str, Any] = {
            "base-url": self.origin,
            "headers": {"x-api-key": self.key},
            "workers": _WORKERS,
            "continue-on-failure": True,
            # A busy machine must not fail the test.
            "suppress-health-check": ["all"],
            "request-timeout": _TIMEOUT_SECONDS,
            "generation": {
                "max-examples": self.per_operation,
                "no-shrink": True,
                "database": "none",
                # The key of every request is ours; without one, and with a false one, `ignored_auth` asks.
                "with-security-parameters": False,
            },
            "dictionaries": {name: {"values": list(values)} for name, values in self.known.items()},
            "parameters": {name: {"dictionary": name, "probability": 0.5} for name in self.known},
            "checks": {
                **{name: {"enabled": False} for name in _DISABLED_CHECKS},
                # What is too long to be looked at is refused by 414. Whether a status is documented is another check.
                _INVALID_ACCEPTED: {"expected-statuses": ["4xx"]},
            },
            "phases": {"coverage": {"enabled": self.boundaries, "generate-duplicate-query-parameters": True}},
        }
        return schemathesis.Config.from_dict(config | ({} if self.seed is None else {"seed": self.seed}))


def fetch_document(origin: str) -> dict[str, Any] | None:
    """Return the document that a service serves; None while it does not listen yet."""
    try:
        answer = requests.get(f"{origin}/v1/openapi.json", timeout=30)
    except requests.ConnectionError:
        return None
    answer.raise_for_status()
    document: dict[str, Any] = answer.json()
    return document


def with_absolute_paths(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with whole paths: schemathesis sends every operation to one root."""
    root = document["servers"][0]["url"]
    paths = {(path if "servers" in item["get"] else root + path): item for path, item in document["paths"].items()}
    return {**{name: value for name, value in document.items() if name != "servers"}, "paths": paths}


def _record_scenario(findings: FuzzFindings, event: events.ScenarioFinished) -> None:
    recorder = event.recorder
    for case, interaction in recorder.interactions.items():
        if interaction.response is None:
            findings.errors.append(f"no answer to {interaction.request.uri}")
            continue
        status = interaction.response.status_code
        findings.statuses[status] += 1
        for check in recorder.checks.get(case, ()):
            if check.status is not Status.SUCCESS:
                reported = check.failure_info.failure if check.failure_info else check.status
                line = f"{interaction.request.method} {interaction.request.uri} -> {status}: {reported}"
                findings.failures.setdefault(check.name, []).append(line)
