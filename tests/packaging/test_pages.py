"""Pages that name files, modules and settings name such as there are."""

import datetime as dt
import json
import re
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from brokerage.demo import demo
from brokerage.settings_types import settings_types
from cluster.settings import declared_settings
from sample import write_source
from tests.brokerage.command_tree import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/architecture.md", "docs/sizing.md", "deploy/kubernetes/README.md"]
EVERY_PAGE = sorted(str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
LENGTHS = {"CHANGELOG.md": 15, "SECURITY.md": 3, "docs/reliability.md": 8, "CONTRIBUTING.md": 7}
FOLDERS = "bench|brokerage|cluster|consumer|deploy|docs|embedded|indexer|locks|mappings|sample|service|tests"
# Settings of Elasticsearch, and a logger.
NOT_MODULES = {
    "cluster.fault_detection.follower_check.timeout",
    "cluster.no_master_block",
    "cluster.routing.allocation.awareness.attributes",
    "cluster.routing.allocation.enable",
    "service.access",
}
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
VARIABLES = {declared.metadata["variable"] for kind in settings_types({}) for declared in declared_settings(kind)}


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_links_lead_to_files_and_sections(page: str) -> None:
    """Links of a repository: to files beside the page, and to headings or anchors in pages."""
    folder, text = (ROOT / page).parent, re.sub(r"(?ms)^```.*?^```|`[^`\n]*`", "", _text(page))
    links = [link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", text) if ":" not in link and link[0] != "/"]
    assert [link for link, _, _ in links if not (folder / link).exists()] == []
    pages = [(folder / link if link else ROOT / page, section) for link, _, section in links if section]
    assert [f"{file}#{section}" for file, section in pages if section not in _anchors(file.read_text())] == []


def _anchors(text: str) -> set[str]:
    """Return the anchors of a page on a repository host: those of its headings, and those that it sets."""
    headings = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```", "", text))
    named = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return named | {*re.findall(r'<a id="([\w-]+)">', text)}


@pytest.mark.parametrize(("page", "kilobytes"), LENGTHS.items())
def test_pages_for_people_in_a_hurry_are_short(page: str, kilobytes: int) -> None:
    assert (ROOT / page).stat().st_size <= kilobytes * 1024


def test_the_changelog_has_an_entry_a_line() -> None:
    lines = _text("CHANGELOG.md").partition("\n## ")[2].splitlines()
    assert [line for line in lines if (line.startswith("- ") and len(line) > 200) or line.startswith(" ")] == []
    assert {line for line in lines if line.startswith("### ")} == {"### API", "### Operators", "### Security"}


@pytest.mark.parametrize("page", PAGES)
def test_settings_are_settings(page: str) -> None:
    assert set(re.findall(r"\bBROKERAGE_[A-Z_]+[A-Z]\b", _text(page))) <= VARIABLES


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_commands(page: str) -> None:
    named = re.findall(r"(?:^|`|-- )brokerage ((?:index |keys )?[a-z]+)\b", _text(page), re.MULTILINE)
    assert {f"brokerage {name}" for name in named} <= COMMANDS.keys()


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_named_files_and_modules_exist(page: str) -> None:
    """Every path and dotted name in backticks, and every `python -m`, that begins with a package or folder of ours."""
    spans = " ".join(re.findall(r"`([^`\n]+)`", _text(page)))
    paths = re.findall(rf"(?<![\w/.-])(?:{FOLDERS})/[\w./-]+", spans)
    modules = re.findall(rf"(?:-m |(?<![\w/.-]))((?:{FOLDERS})(?:\.[a-z]\w*)+)", spans)
    assert [path for path in paths if not (ROOT / path).exists() and not (ROOT / f"{path}.py").exists()] == []
    names = set(modules) - NOT_MODULES
    assert [name for name in names if not _is_importable(name) and not (ROOT / name).exists()] == []


def _is_importable(name: str) -> bool:
    """Whether a dotted name is a module, or something that a module names."""
    parent, _, member = name.rpartition(".")
    if not parent:
        return (ROOT / name).is_dir()
    module = ROOT / name.replace(".", "/")
    holder = (ROOT / parent.replace(".", "/")).with_suffix(".py")
    return module.is_dir() or module.with_suffix(".py").exists() or (holder.exists() and member in holder.read_text())


def test_a_shown_page_is_the_first_of_the_demo(sampled: list[dict[str, Any]]) -> None:
    page = "service/site/text/start.md"
    shown = re.findall(r'"PlatformListingId": ?"([0-9a-f-]+)', _text(page))
    assert len(shown) == 2
    # Nothing lies between them, and what is shown of them is so.
    for documented, record in zip(
        re.findall(r"\{[^{]*\"PlatformListingId\"[^}]*\}", _text(page)), sampled[:2], strict=True
    ):
        values = [(name, json.loads(value)) for name, value in re.findall(r'"(\w+)": ?("[^"…]+"|\d+)', documented)]
        assert len(values) >= 2
        assert {name: record[name] for name, _ in values} == dict(values)
    assert [record["PlatformListingId"][: len(start)] for record, start in zip(sampled, shown, strict=False)] == shown
    assert re.findall(r"last_platform_listing_id=([0-9a-f-]+)", _text(page)) == shown[1:]


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The listings of Evergreen that a demo answers without further parameters, as they are sorted."""
    [listings] = [option.default for option in demo.params if option.name == "listings"]
    assert isinstance(listings, int)
    folder = tmp_path_factory.mktemp("sampled")
    write_source(folder, listings)
    lines = map(json.loads, (folder / "listings.ndjson").read_bytes().splitlines())
    since = (dt.datetime.now(dt.UTC) - dt.timedelta(days=7)).isoformat()
    return sorted(
        (
            line["record"]
            for line in lines
            if line["platform_company_id"] == "evergreen-realty"
            and line["updated_at"] > since
            and line["record"]["Status"] in {"Active", "Pending", "Contingent"}
        ),
        key=itemgetter("PlatformListingId"),
    )


def test_the_readme_names_every_command() -> None:
    text = _text("README.md")
    assert all(f"`{path.partition(' ')[2]}`" in text for path in COMMANDS if path.count(" ") == 1)


@pytest.mark.parametrize(("heading", "package"), [("Life of a request", "service"), ("Life of a build", "indexer")])
def test_a_step_names_modules_that_there_are(heading: str, package: str) -> None:
    (part,) = re.findall(rf"^## {heading}$(.*?)^## ", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    cells = [row.split("|")[2] for row in part.splitlines() if row.startswith("|")]
    modules = [name for cell in cells for name in re.findall(r"`([\w/]+)`", cell)]
    assert len(modules) > 10
    places = [ROOT / package, ROOT]
    missing = [name for name in modules if not any(_is_module(place / name) for place in places)]
    assert missing == []


def _is_module(path: Path) -> bool:
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()
