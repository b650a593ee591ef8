"""The packages of the product according to their imports: which uses which, and which modules of each are used."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from tests.architecture.graph import PRODUCT, Graph, folder_of, imports

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Package:
    """A package as it is drawn."""

    name: str
    purpose: str  # the first sentence of its docstring
    parts: tuple[str, ...]  # packages within it
    face: tuple[str, ...]  # modules of it that others import, less its name
    uses: frozenset[str]


def packages() -> dict[str, Package]:
    """Return the packages of the product by name."""
    used: Graph = {name: set() for name in PRODUCT}
    for module, imported in imports(*PRODUCT).items():
        used[module.partition(".")[0]] |= imported
    return {name: _package(name, used) for name in PRODUCT}


def _package(name: str, imported: Graph) -> Package:
    of_others = set[str]().union(*(modules for owner, modules in imported.items() if owner != name))
    face = sorted(module.removeprefix(f"{name}.") for module in of_others if module.startswith(f"{name}."))
    parts = sorted(path.parent.name for path in folder_of(name).glob("*/__init__.py"))
    uses = frozenset(module.partition(".")[0] for module in imported[name]) & set(PRODUCT) - {name}
    return Package(name, _purpose(folder_of(name) / "__init__.py"), tuple(parts), tuple(face), uses)


def _purpose(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def reduced(found: dict[str, Package]) -> dict[str, set[str]]:
    """Return which package uses which, without what follows: a package may use what the packages that it uses use."""
    reach = _reach(found)
    return {
        name: {used for used in package.uses if not any(used in reach[other] for other in package.uses - {used})}
        for name, package in found.items()
    }


def _reach(found: dict[str, Package]) -> dict[str, set[str]]:
    reach: dict[str, set[str]] = {}
    for name in TopologicalSorter({name: package.uses for name, package in found.items()}).static_order():
        reach[name] = set(found[name].uses).union(*(reach[used] for used in found[name].uses))
    return reach


def rows(found: dict[str, Package]) -> list[list[str]]:
    """Return the packages from the top down, each in the row below the lowest of those that use it."""
    depth: dict[str, int] = {}
    users = {name: {other for other, package in found.items() if name in package.uses} for name in found}
    for name in TopologicalSorter(users).static_order():
        depth[name] = 1 + max((depth[user] for user in users[name]), default=-1)
    return [_ordered(found, [name for name in found if depth[name] == row]) for row in range(max(depth.values()) + 1)]


def _ordered(found: dict[str, Package], names: list[str]) -> list[str]:
    """Put what uses much into the middle, so that lines to lower rows go outward and do not cross."""
    by_use = sorted(names, key=lambda name: (len(found[name].uses), name))
    return by_use[0::2] + by_use[1::2][::-1]
