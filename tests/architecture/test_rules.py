"""Properties of the product that its code shows: directions of imports, and what only a single place may do."""

import ast
from fnmatch import fnmatch
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.graph import ALLOWED, CLIENT, MODULES, PRODUCT, ROOT, folder_of, imports

# The rest of the service sees neither errors nor the query language of the Elasticsearch client.
CLIENT_USERS = {"service/audit/store.py", "service/search/engine.py", "service/app.py", "service/keys/store.py"}


def name(path: Path) -> str:
    """Return the path of a module relative to the repository."""
    return path.relative_to(ROOT).as_posix()


def imported(path: Path) -> set[str]:
    """Return the top-level packages that a module imports anywhere in it, for types too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


def called(path: Path) -> set[str]:
    """Return the names of all functions and methods that a module calls."""
    calls = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    return {ast.unparse(function).rpartition(".")[2] for function in calls}


def test_the_rules_cover_all_packages() -> None:
    found = {path.parent for folder in (ROOT, CLIENT) for path in folder.glob("*/__init__.py")}
    assert found - {ROOT / "tests"} == {folder_of(package) for package in ALLOWED}
    assert all(any(path.is_relative_to(folder_of(package)) for path in MODULES) for package in ALLOWED)


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_point_one_way(package: str) -> None:
    forbidden = {*ALLOWED, "tests"} - ALLOWED[package] - {package}
    modules = [path for path in MODULES if path.is_relative_to(folder_of(package))]
    assert {name(path): wrong for path in modules if (wrong := imported(path) & forbidden)} == {}


def test_in_the_service_four_modules_use_the_elasticsearch_client() -> None:
    in_service = [path for path in MODULES if path.is_relative_to(ROOT / "service")]
    knowing = {name(path) for path in in_service if imported(path) & {"elasticsearch", "elastic_transport"}}
    assert knowing == CLIENT_USERS


# The console queries workers of its own host. What is pushed is sent by `brokerage deliver`, a process of its own.
_OF_THE_CONSOLE, _OF_DELIVERIES = "service/console/summaries.py", "service/deliver/sender.py"


def test_in_the_service_one_module_sends_other_http_requests() -> None:
    """It queries workers of its own host only: no request and no record makes the service connect elsewhere."""
    in_service = [path for path in MODULES if path.is_relative_to(ROOT / "service")]
    senders = {name(path) for path in in_service if "ClientSession" in called(path)}
    assert senders == {_OF_THE_CONSOLE, _OF_DELIVERIES}


def test_the_service_does_not_import_what_sends_deliveries() -> None:
    """Neither do the modules that it imports by name: capabilities, their schemas and their tables."""
    graph = imports("service")
    found = {"service.app", *(module for module in graph if module.endswith((".capability", ".schemas", ".tables")))}
    while added := {used for module in found for used in graph[module]} - found:
        found |= added
    assert _OF_DELIVERIES.removesuffix(".py").replace("/", ".") not in found
    assert "service.deliver.subscriptions" in found


@pytest.mark.parametrize("package", PRODUCT)
def test_modules_form_no_circle_even_through_imports_for_types(package: str) -> None:
    TopologicalSorter(imports(package)).prepare()  # a CycleError names the modules


# Renders the examples of the API's description, from sample data.
_FOR_NO_KEY = {"service/examples.py"}


def test_the_variant_of_returned_records_is_chosen_in_one_place() -> None:
    """`RequestContext.variant` knows which fields the key must not see; a variant made elsewhere would show them."""
    in_service = [path for path in MODULES if path.is_relative_to(ROOT / "service")]
    makers = {name(path) for path in in_service if "Variant" in called(path)}
    assert makers - _FOR_NO_KEY == {"service/request_context.py"}


def test_every_folder_with_tests_is_collected(pytestconfig: pytest.Config) -> None:
    """By default pytest excludes folders by name, `build` among them, without a word."""
    excluded = pytestconfig.getini("norecursedirs")
    files = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")]
    folders = {part for path in files if "node_modules" not in path.parts for part in path.parts[:-1]}
    assert [folder for folder in folders if any(fnmatch(folder, pattern) for pattern in excluded)] == []
