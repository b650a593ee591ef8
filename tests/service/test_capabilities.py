"""What a deployment leaves out (BROKERAGE_WITHOUT) is not there at all, and the contract does not miss it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from cluster.connection import ConnectionSettings
from cluster.settings import SettingError
from service.app import create_app
from service.capabilities import CAPABILITIES, installed_capabilities
from service.capability import Capability
from service.openapi.document import document
from service.resources import OPERATIONS
from service.settings import ServiceSettings
from service.site.pages import OPTIONAL_PAGES, Site

ROOT = Path(__file__).parents[2]
_LISTED = """
import sys
from cluster.connection import ConnectionSettings
from service.app import create_app
from service.settings import ServiceSettings
create_app(ServiceSettings(without=tuple(sys.argv[1:])), ConnectionSettings(url=("http://127.0.0.1:9",)))
print("\\n".join(name for name in sys.modules if name.startswith("service.")))
"""
# A path that only this capability serves.
_PATHS = {
    "changes": ("/v1/changes", "/v1/snapshot/listings", "/v1/digest/listings", "/api/changes"),
    "exports": ("/v1/exports/listings",),
    "reso": ("/v1/reso", "/v1/reso/$metadata", "/v1/reso/Property"),
    "compatible": ("/api/listings", "/api/companies"),
    "openapi": ("/v1/openapi.json",),
    "site": ("/docs", "/llms.txt", "/"),
}
# The modules of a capability: its folder, or its only module.
_ROOMS = {
    name: module.removesuffix(".capability") if module.endswith(".capability") else module
    for name, module in CAPABILITIES.items()
}
each = pytest.mark.parametrize("name", CAPABILITIES)


def served(without: tuple[str, ...]) -> web.Application:
    """Return an application; nothing of it is started."""
    return create_app(ServiceSettings(without=without), ConnectionSettings(url=("http://127.0.0.1:9",)))


def templates(app: web.Application) -> set[str]:
    """Return the path templates of all routes."""
    return {resource.canonical for resource in app.router.resources()}


def room_of(module: str) -> str | None:
    """Return the capability that a module belongs to."""
    return next((name for name, room in _ROOMS.items() if module == room or module.startswith(f"{room}.")), None)


@pytest.mark.parametrize("without", [*([name] for name in CAPABILITIES), [*CAPABILITIES]], ids=" ".join)
def test_nothing_of_what_is_left_out_is_imported(without: list[str]) -> None:
    command = [sys.executable, "-c", _LISTED, *without]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()  # noqa: S603 - our own program
    assert "service.resources.listings" in listed
    assert [module for module in listed if room_of(module) in without] == []


@pytest.mark.parametrize("without", [*([name] for name in CAPABILITIES), [*CAPABILITIES]], ids=" ".join)
def test_the_operations_of_the_contract_stay(without: list[str]) -> None:
    assert {f"/v1{operation.path}" for operation in OPERATIONS} <= {
        path.replace(":[^/]+", "") for path in templates(served(tuple(without)))
    }


@pytest.mark.parametrize("name", _PATHS)
async def test_its_paths_are_not_there(name: str) -> None:
    here, gone = served(()), served((name,))
    for path in _PATHS[name]:
        assert (await _status(here, path)) != 404
        assert (await _status(gone, path)) == 404


async def _status(app: web.Application, path: str) -> int:
    """Return 404 if no route has a path, else 200, without serving it."""
    match = await app.router.resolve(make_mocked_request("GET", path))
    return 200 if match.http_exception is None else match.http_exception.status


@each
def test_the_document_and_the_pages_are_those_of_what_is_installed(name: str) -> None:
    installed = installed_capabilities((name,))
    paths = {operation.path for operation in _capability(name).operations}
    described = document(installed)
    assert paths.isdisjoint(described["paths"])
    assert Site.with_capabilities(installed).pages.isdisjoint(_capability(name).pages)
    if name == "geojson":
        assert "application/geo+json" not in str(described)


def test_every_optional_page_belongs_to_a_capability() -> None:
    assert {page for name in CAPABILITIES for page in _capability(name).pages} == OPTIONAL_PAGES


def _capability(name: str) -> Capability:
    return next(capability for capability in installed_capabilities() if capability.name == name)


@pytest.mark.parametrize("text", ["resso", "reso,exprots", "Reso"])
def test_an_unknown_name_prevents_the_start(text: str) -> None:
    with pytest.raises(SettingError, match=r"BROKERAGE_WITHOUT: '(resso|exprots|Reso)' is none of: changes, exports"):
        served((text,))


@pytest.mark.parametrize("text", ["reso exports", "reso,exports"])
def test_names_are_separated_by_spaces_or_commas(text: str) -> None:
    found = {capability.name for capability in installed_capabilities((text,))}
    assert found == CAPABILITIES.keys() - {"reso", "exports"}


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_the_core_imports_no_capability_and_none_imports_another() -> None:
    wrong: set[tuple[str, str]] = set()
    for path in (ROOT / "service").rglob("*.py"):
        module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        # Publishing is a command of its own; schemas of a capability are read by the OpenAPI document alone.
        if module.startswith("service.publishing.") or module.endswith(".schemas"):
            continue
        own = room_of(module)
        wrong |= {(module, other) for other in _imports(path) if room_of(other) not in {None, own}}
    assert wrong == set()
