"""Which versions of Elasticsearch may be used: asked before each build, and all the time by the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_OLDEST = (9, 4, 0)
# They can lose bulk items on replicas (elasticsearch#158212).
_FAULTY = frozenset({(9, 5, 0), (9, 5, 1), (9, 5, 2)})


def old_versions(nodes: Iterable[Mapping[str, str]]) -> list[str]:
    """Return a sentence for each version among the nodes that cannot be used. Each node has `name` and `version`."""
    names: dict[str, list[str]] = {}
    for node in nodes:
        names.setdefault(node["version"], []).append(node["name"])
    complaints = {version: _complaint(version) for version in sorted(names)}
    return [f"{', '.join(sorted(names[version]))}: {said}" for version, said in complaints.items() if said]


def _complaint(version: str) -> str | None:
    numbers = tuple(int(part) for part in version.partition("-")[0].split("."))
    if numbers in _FAULTY:
        return f"Elasticsearch {version} can lose documents on replicas, install 9.5.3 or newer."
    if numbers < _OLDEST:
        return f"Elasticsearch {version} is too old, install 9.5.3 or newer."
    return None
