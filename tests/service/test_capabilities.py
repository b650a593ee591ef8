"""What a deployment leaves out (BROKERAGE_WITHOUT) is not there at all, and the contract does not miss it."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from click.testing import CliRunner

from brokerage.command import main
from cluster.connection import ConnectionSettings
from cluster.settings import SettingError
from service.app import create_app
from service.capabilities import CAPABILITIES, installed_capabilities
from service.capability import Capability
from service.openapi.document import document
from service.resources import OPERATIONS
from service.settings import ServiceSettings
from service.site.discovery import llms_txt
from service.site.pages import OPTIONAL_PAGES, PAGE_BY_PATH, START_PAGE, Site
from service.site.rendering import page_html, page_text

ROOT = Path(__file__).parents[2]
_LISTED = """
import sys
import brokerage.serve
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
    "history": ("/v1/listings/L1/history", "/v1/sold_listings/S1/history"),
    "reso": ("/v1/reso", "/v1/reso/$metadata", "/v1/reso/Property"),
    "compatible": ("/api/listings", "/api/companies"),
    "openapi": ("/v1/openapi.json",),
    "site": ("/docs", "/llms.txt", "/"),
}
# What texts say of a capability. A page of another one may name it, without a link; the changelog tells of all.
_WORDS = {
    "changes": r"/changes\b|/snapshot|/digest|\b[Ss]napshot",
    "exports": r"/exports|BROKERAGE_EXPORTS|[Pp]ublished file|DOWNLOADS",
    "reso": r"/v1/reso|\bRESO\b|OData",
    "audit": r"\b[Aa]udit|AUDIT",
    "compatible": r"[^.]/api/|compatible profile",
    "geojson": r"GeoJSON|geo\+json",
    "history": r"/history\b",
    "deliver": r"BROKERAGE_DELIVER|[Ss]ubscription|brokerage deliver",
    "openapi": r"OpenAPI|/openapi.json",
    "site": r"/docs\b|llms\.txt|\.well-known",
    "console": r"/console",
    "traces": r"OpenTelemetry|OTEL",
    "redis": r"\b[Rr]edis\b|REDIS",
}
_PAGES_OF_CAPABILITIES = {page for capability in installed_capabilities() for page in capability.pages}
# The modules of a capability: its folder, or its only module.
_ROOMS = {
    name: module.removesuffix(".capability") if module.endswith(".capability") else module
    for name, module in CAPABILITIES.items()
}
every_capability = pytest.mark.parametrize("name", CAPABILITIES)


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
    assert "service.resources.operations" in listed
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


@every_capability
def test_the_document_and_the_pages_are_those_of_what_is_installed(name: str) -> None:
    installed = installed_capabilities((name,))
    site = Site.with_capabilities(installed)
    paths = {operation.path for operation in _capability(name).operations}
    described = document(installed)
    assert paths.isdisjoint(described["paths"])
    assert site.pages.isdisjoint(_capability(name).pages)
    texts = {page.name: page_text(page, site) for page in PAGE_BY_PATH.values() if site.has(page)}
    core = {name: text for name, text in texts.items() if name not in {*_PAGES_OF_CAPABILITIES, "changelog"}}
    if name != "openapi":
        core["document"] = str(described)
    if name != "site":
        core["llms.txt"] = llms_txt("https://api.example", "/v1", site)
        core["frame"] = page_html(START_PAGE, site).decode()
        assert {link for text in texts.values() for link in re.findall(r"\(/docs/([a-z]+)", text)} <= site.pages
        assert "<!-- with" not in "".join(texts.values())
        assert mentions(name, core) == {}


def mentions(name: str, texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what texts say of a capability."""
    found = {where: re.findall(_WORDS[name], text) for where, text in texts.items()}
    return {where: words for where, words in found.items() if words}


def test_all_that_is_installed_is_described() -> None:
    site = Site.with_capabilities(installed_capabilities())
    texts = {page.name: page_text(page, site) for page in PAGE_BY_PATH.values()}
    texts |= {
        "settings": _printed("settings"),
        "doctor": _printed("doctor"),
        "document": str(document(installed_capabilities())),
    }
    # The console and traces are for operators, whom docs/operating/monitor.md tells of them.
    assert {name for name in _WORDS if not mentions(name, texts)} == {"console", "traces"}


@every_capability
@pytest.mark.parametrize("command", ["settings", "doctor"])
def test_commands_do_not_mention_it(name: str, command: str) -> None:
    shown = _printed(command, name)
    own = f"BROKERAGE_WITHOUT {name} environment"
    assert "BROKERAGE_PORT" in shown or "elasticsearch" in shown
    assert mentions(name, {command: " ".join(shown.split()).replace(own, "")}) == {}


def _printed(command: str, without: str = "") -> str:
    """Return the output of a command, over an address without a cluster."""
    others = {name: None for name in os.environ if name.startswith(("BROKERAGE_", "ELASTICSEARCH_"))}
    given = {"ELASTICSEARCH_URL": "http://127.0.0.1:9", "BROKERAGE_WITHOUT": without, "COLUMNS": "400"}
    return CliRunner().invoke(main, command, env={**others, **given}).output


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
