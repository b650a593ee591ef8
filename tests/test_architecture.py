"""The rules of the codebase itself: imports point one way, files stay small, names say what is inside."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
# Each package with the product packages that it may import.
ALLOWED = {
    "mappings": set[str](),
    "embedded": set[str](),
    "cluster": {"mappings"},
    "sample": {"mappings"},
    "indexer": {"mappings", "cluster"},
    "service": {"mappings", "cluster"},
    "consumer": set[str](),
    "brokerage": {"mappings", "cluster", "embedded", "sample", "indexer", "service", "consumer"},
    "bench": {"mappings", "cluster", "embedded", "sample", "indexer", "service"},
}
# Elsewhere in the service no error of the client and no query language of it may show.
KNOW_THE_CLIENT = {"service/elastic.py", "service/app.py", "service/keys/store.py"}
SAYS_NOTHING = {"utils", "helpers", "common", "manager"}
LONGEST_FILE_LINES = 200

MODULES = sorted(path for package in ALLOWED for path in (ROOT / package).rglob("*.py"))


def name(path: Path) -> str:
    """Return a module's path as people write it."""
    return path.relative_to(ROOT).as_posix()


def imported(path: Path) -> set[str]:
    """Return the top-level packages that a module imports anywhere in it, for types too; `.` for a relative one."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." if node.level else (node.module or "").partition(".")[0])
    return names


def called(path: Path) -> set[str]:
    """Return the names of what a module calls, without what they are members of."""
    calls = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    return {ast.unparse(function).rpartition(".")[2] for function in calls}


def undocumented(path: Path) -> Iterator[str]:
    """Yield what is public in a module, the module itself included, and has no docstring."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    if ast.get_docstring(module) is None:
        yield name(path)
    for node in _public(module):
        if ast.get_docstring(node) is None:
            yield f"{name(path)}:{node.lineno} {node.name}"


def _public(parent: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in parent.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node)


def test_the_product_is_the_packages_that_the_rules_know() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(ALLOWED)
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"} == set(ALLOWED)


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_point_one_way(package: str) -> None:
    forbidden = {*ALLOWED, "tests"} - ALLOWED[package] - {package}
    modules = [path for path in MODULES if path.is_relative_to(ROOT / package)]
    assert {name(path): wrong for path in modules if (wrong := imported(path) & forbidden)} == {}


def test_imports_name_the_whole_path_of_a_module() -> None:
    assert [name(path) for path in MODULES if "." in imported(path)] == []


def test_in_the_service_the_client_of_elasticsearch_is_known_to_three_modules() -> None:
    in_service = [path for path in MODULES if path.is_relative_to(ROOT / "service")]
    knowing = {name(path) for path in in_service if imported(path) & {"elasticsearch", "elastic_transport"}}
    assert knowing == KNOW_THE_CLIENT


def test_in_the_service_one_module_asks_anybody_else_over_http() -> None:
    """And that asks the workers of its own host alone: no request and no record can make the service ask others."""
    in_service = [path for path in MODULES if path.is_relative_to(ROOT / "service")]
    assert {name(path) for path in in_service if "ClientSession" in called(path)} == {"service/console/siblings.py"}


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [name(path) for path in MODULES if {*path.relative_to(ROOT).with_suffix("").parts} & SAYS_NOTHING] == []


def test_files_stay_short_enough_to_read_at_once() -> None:
    lines = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {path: count for path, count in lines.items() if count > LONGEST_FILE_LINES} == {}


def test_whatever_is_public_says_what_it_does() -> None:
    assert [thing for path in MODULES for thing in undocumented(path)] == []


# Renders the examples of the API's description, from sample data.
_FOR_NO_KEY = {"service/openapi/examples.py"}


def test_the_form_of_answered_records_is_chosen_in_one_place() -> None:
    """`Call.variant` knows what the key may not see; a form that is made elsewhere would show it."""
    in_service = [path for path in MODULES if path.is_relative_to(ROOT / "service")]
    assert {name(path) for path in in_service if "Variant" in called(path)} - _FOR_NO_KEY == {"service/operation.py"}
