"""The document of rights as tests read it: the role of each part, and what each call that it makes needs."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mappings import RESOURCES

_DOCUMENT = Path(__file__).parents[2] / "docs/elasticsearch-rights.md"
_ROW = re.compile(r"^\| `([A-Z]+ /[^`]*)` \| (?:`(\w+)`|nothing) \| (?:`([^`]+)` |the cluster |)\|$", re.MULTILINE)
_ALIASES = [resource.alias for resource in RESOURCES]


@dataclass(frozen=True)
class DocumentedRole:
    """What the document says of one part."""

    role: dict[str, Any]
    calls: dict[str, tuple[str, str]]  # by call: a privilege and what it is on; empty for none and for the cluster

    def needed(self) -> set[tuple[str, str]]:
        """Return each privilege with the index it is on, that of the cluster with none."""
        return {(right, name) for right, on in self.calls.values() if right for name in _names(on)}

    def granted(self) -> set[tuple[str, str]]:
        on_indices = {
            (right, name) for entry in self.role["indices"] for name in entry["names"] for right in entry["privileges"]
        }
        return on_indices | {(right, "") for right in self.role["cluster"]}


def _names(on: str) -> list[str]:
    patterns = {"{alias}": "{}", "{served}": "{}-served-*", "{generation}": "{}*"}
    return [patterns[on].format(alias) for alias in _ALIASES] if on in patterns else [on]


def documented_roles() -> dict[str, DocumentedRole]:
    sections = re.split(r"^## .*`(\w+)`$", _DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {name: _part(text) for name, text in zip(sections[::2], sections[1::2], strict=True)}


def _part(text: str) -> DocumentedRole:
    (role,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    rows = _ROW.findall(text)
    # Every row of the tables was understood.
    assert len(rows) == len(re.findall(r"^\| `[A-Z]+ /", text, re.MULTILINE))
    return DocumentedRole(json.loads(role), {call: (right, on) for call, right, on in rows})


def privileges(role: Mapping[str, Any], asked: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Answer `_has_privileges` as Elasticsearch does for a user with this role; names carry a prefix."""
    implied = {"write": {"index", "delete"}, "manage": {"view_index_metadata", "delete_index", "create_index"}}

    def has(name: str, right: str) -> bool:
        return any(
            right in {granted, *implied.get(granted, ())} or granted == "all"
            for entry in role["indices"]
            if any(fnmatchcase(name, prefix + pattern) for pattern in entry["names"])
            for granted in entry["privileges"]
        )

    index: dict[str, dict[str, bool]] = {}
    for entry in asked["index"]:
        for name in entry["names"]:
            index.setdefault(name, {}).update({right: has(name, right) for right in entry["privileges"]})
    cluster = {right: _in_cluster(role["cluster"], right) for right in asked["cluster"]}
    return {"username": "reader", "has_all_requested": False, "cluster": cluster, "index": index, "application": {}}


def _in_cluster(granted: Iterable[str], right: str) -> bool:
    return right in granted or "all" in granted
