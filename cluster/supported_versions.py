"""Supported versions of Elasticsearch, checked before each build and continuously by the service."""

from collections.abc import Iterable, Mapping

_MIN_VERSION = (9, 4, 0)
# These can lose bulk items on replicas (elasticsearch#158212).
_FAULTY = frozenset({(9, 5, 0), (9, 5, 1), (9, 5, 2)})


def unsupported_versions(nodes: Iterable[Mapping[str, str]]) -> list[str]:
    """Return a sentence for each unsupported version among nodes, which have `name` and `version`."""
    names: dict[str, list[str]] = {}
    for node in nodes:
        names.setdefault(node["version"], []).append(node["name"])
    problems = {version: _problem(version) for version in sorted(names)}
    return [f"{', '.join(sorted(names[version]))}: {problem}" for version, problem in problems.items() if problem]


def _problem(version: str) -> str | None:
    numbers = tuple(int(part) for part in version.partition("-")[0].split("."))
    if numbers in _FAULTY:
        return f"Elasticsearch {version} can lose documents on replicas, install 9.5.3 or newer."
    if numbers < _MIN_VERSION:
        return f"Elasticsearch {version} is too old, install 9.5.3 or newer."
    return None
