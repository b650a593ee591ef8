"""The packages, which of them each may import, and who imports whom, type-only imports included."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

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


def imports(package: str) -> dict[str, set[str]]:
    """Return which modules of a package each of its modules imports, anywhere in it, for types too."""
    known = {_dotted(path): path for path in sorted(folder_of(package).rglob("*.py"))}
    return {name: {used for used in _imported(path, known) if used != name} for name, path in known.items()}


def _dotted(path: Path) -> str:
    root = CLIENT if path.is_relative_to(CLIENT) else ROOT
    return path.relative_to(root).with_suffix("").as_posix().removesuffix("/__init__").replace("/", ".")


def _imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module in known:
            members = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (member if member in known else node.module for member in members)
