"""The import graph of the product, type-only imports included: modules, rooms and circles.

A room is what lies directly in a package: a module or a sub-package. An arrow joins two rooms of one package when a
module of the first imports one of the second. An arrow runs upward when it closes a circle of rooms.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).parent.parent.parent
# Each package with the product packages that it may import.
ALLOWED = {
    "mappings": set[str](),
    "embedded": set[str](),
    "cluster": {"mappings"},
    "sample": {"mappings"},
    "indexer": {"mappings", "cluster"},
    "service": {"mappings", "cluster"},
    "brokerage_feed": set[str](),
    "brokerage": {"mappings", "cluster", "embedded", "sample", "indexer", "service", "brokerage_feed"},
    "bench": {"mappings", "cluster", "embedded", "sample", "indexer", "service"},
}
# `bench` measures the product and is not a part of it.
PRODUCT = sorted(ALLOWED.keys() - {"bench"})
# The client is a distribution of its own, in a folder of its own.
CLIENT = ROOT / "consumer"


def folder_of(package: str) -> Path:
    """Return the folder of a package."""
    return (CLIENT if package == "brokerage_feed" else ROOT) / package


MODULES = sorted(path for package in ALLOWED for path in folder_of(package).rglob("*.py"))

Graph = dict[str, set[str]]


def modules(*packages: str) -> dict[str, Path]:
    """Return the modules of packages: dotted name to path."""
    return {_dotted(path): path for package in packages for path in sorted(folder_of(package).rglob("*.py"))}


def _dotted(path: Path) -> str:
    root = CLIENT if path.is_relative_to(CLIENT) else ROOT
    return path.relative_to(root).with_suffix("").as_posix().removesuffix("/__init__").replace("/", ".")


def imports(*packages: str) -> Graph:
    """Return which modules of these packages each of their modules imports, anywhere in it, for types too."""
    known = modules(*packages)
    return {name: {used for used in _imported(path, known) if used != name} for name, path in known.items()}


def _imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module in known:
            members = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (member if member in known else node.module for member in members)


def rooms(package: str) -> Graph:
    """Return the rooms of a package, and for each the rooms that it uses."""
    found: Graph = {_room(name): set() for name in modules(package) if name != package}
    for name, used in imports(package).items():
        if name != package:
            found[_room(name)] |= {_room(other) for other in used if other != package} - {_room(name)}
    return found


def _room(module: str) -> str:
    return module.split(".")[1]


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of nodes that reach each other (Tarjan), largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for used in sorted(graph[node]):
            if used not in index:
                visit(used)
                low[node] = min(low[node], low[used])
            elif used in stack:
                low[node] = min(low[node], index[used])
        if low[node] == index[node]:
            at = stack.index(node)
            group, stack[at:] = stack[at:], []
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found, key=len, reverse=True)


def upward(graph: Graph) -> list[tuple[str, str]]:
    """Return the arrows within circles that lead from a room with fewer users within it to one with more."""
    found = []
    for circle in map(set, circles(graph)):
        order = sorted(circle, key=lambda room: (len(graph[room] & circle) - _users(graph, room, circle), room))
        floor = {room: number for number, room in enumerate(order)}
        found += [(a, b) for a in circle for b in graph[a] & circle if floor[a] < floor[b]]
    return sorted(found)


def _users(graph: Graph, room: str, among: Iterable[str]) -> int:
    return sum(room in graph[other] for other in among)


def public_classes() -> dict[str, list[str]]:
    """Return every public class name of the product with the modules that define it."""
    found = defaultdict(list)
    for name, path in modules(*PRODUCT).items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    return dict(found)
