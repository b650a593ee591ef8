"""The dashboard, the alerts and the documentation name what the service exports, and their own tools accept them."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client import Metric

from tests.telemetry.conftest import FEED, Watched

ROOT = Path(__file__).parents[2]
GUIDE = "".join((ROOT / f"docs/operating/{page}.md").read_text(encoding="utf-8") for page in ("metrics", "monitor"))
RULES = ROOT / "deploy/prometheus/alerts.yml"
TRIALS = RULES.with_name("alerts.test.yml")
ALERTS: dict[str, Any] = {
    rule["alert"]: rule for group in yaml.safe_load(RULES.read_bytes())["groups"] for rule in group["rules"]
}
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/brokerage.json").read_bytes())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
# What Prometheus adds to whatever it scrapes.
ADDED = {"job", "instance", "le"}
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "summary": ("_count", "_sum")}
NAME = re.compile(r"\b(?:brokerage|process|python|up)(?:_\w+)?\b(?=[{\[])")
LABELS = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
GROUPED = re.compile(r"by \(([^)]*)\)")
MACROS = {"$__rate_interval": "5m", "$job": "brokerage", "$instance": ".*"}


def table(heading: str) -> dict[str, list[str]]:
    """Return the rows of the first table below a heading of the guide: the other cells by the name in the first."""
    lines = GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in rows}


def documented() -> dict[str, set[str]]:
    """Return the labels of each metric of the guide."""
    return {name: set(re.findall(r"`(\w+)`", row[0])) for name, row in table("Metrics").items()}


def _own(families: dict[str, Metric]) -> Iterator[tuple[str, Metric]]:
    """Yield the service's own metrics by the name under which people know them."""
    for name, family in families.items():
        if name.startswith("brokerage_"):
            yield (f"{name}_total" if family.type == "counter" else name), family


def _queried(families: dict[str, Metric]) -> set[str]:
    """Return every name that can be queried."""
    return {"up"} | {name + end for name, family in families.items() for end in SUFFIXES.get(family.type, ("",))}


async def test_the_guide_lists_what_is_exported_with_its_labels(watched: Watched, key: str) -> None:
    await watched.get(FEED, key)
    exported, described = dict(_own(await watched.families())), documented()
    assert sorted(described) == sorted(exported)
    labels = {name: {*sample.labels} - ADDED for name, family in exported.items() for sample in family.samples}
    assert {name: described[name] for name in labels} == labels


async def test_queries_name_what_is_exported(watched: Watched) -> None:
    known = _queried(await watched.families())
    queries = QUERIES + [rule["expr"] for rule in ALERTS.values()]
    assert [query for query in queries if not NAME.search(query)] == []
    assert {name for query in queries for name in NAME.findall(query)} - known == set()


@pytest.mark.parametrize("query", QUERIES + [rule["expr"] for rule in ALERTS.values()])
def test_a_query_uses_the_labels_of_its_metrics(query: str) -> None:
    described = documented()
    names = {re.sub("_(bucket|count|sum)$", "", name) for name in NAME.findall(query)}
    labels = ADDED.union(*(described.get(name, set()) for name in names))
    used = {*LABELS.findall(query), *(name.strip() for names in GROUPED.findall(query) for name in names.split(","))}
    assert used - labels == set()


async def test_the_dashboard_shows_every_metric_but_those_of_failed_notes(watched: Watched) -> None:
    shown = {re.sub("_(bucket|count|sum)$", "", name) for query in QUERIES for name in NAME.findall(query)}
    exported = {name for name, _ in _own(await watched.families())}
    notes = {"brokerage_key_usage_failures_total", "brokerage_access_lines_dropped_total"}
    assert exported - shown == notes | {f"brokerage_audit_{each}_total" for each in ("rows", "lost", "failures")}


def _promtool(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    tool = shutil.which("promtool", path=str(Path(sys.executable).parent)) or shutil.which("promtool")
    assert tool is not None, "promtool is missing: `make promtool` fetches it, or install Prometheus"
    return subprocess.run([tool, *arguments], cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - its own


def test_prometheus_accepts_the_rules_and_raises_what_it_should() -> None:
    for arguments in (("check", "rules", RULES.name), ("test", "rules", TRIALS.name)):
        ended = _promtool(*arguments, folder=RULES.parent)
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_each_alert_is_tried_with_series_that_raise_it_and_with_some_that_do_not() -> None:
    tried = {
        (trial["alertname"], bool(trial["exp_alerts"]))
        for test in yaml.safe_load(TRIALS.read_bytes())["tests"]
        for trial in test["alert_rule_test"]
    }
    assert tried == {(name, is_raised) for name in ALERTS for is_raised in (True, False)}


def test_the_guide_says_what_to_do_about_each_alert() -> None:
    assert sorted(table("Alerts")) == sorted(ALERTS)
    assert {rule["annotations"]["runbook"] for rule in ALERTS.values()} == {"docs/operating/monitor.md#alerts"}


def test_prometheus_understands_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    rules = []
    for number, query in enumerate(QUERIES):
        for macro, instead in MACROS.items():
            query = query.replace(macro, instead)  # noqa: PLW2901 - one macro after the other
        assert "$" not in query
        rules.append({"record": f"query:{number}", "expr": query})
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    ended = _promtool("check", "rules", "rules.yml", folder=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def lost(sent: Any, kept: Any, path: str = "") -> Iterator[str]:
    """Yield where something is in the first and not, or otherwise, in the second."""
    if isinstance(sent, dict) and isinstance(kept, dict):
        for name, value in sent.items():
            yield from lost(value, kept.get(name), f"{path}/{name}")
    elif isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        for number, (one, other) in enumerate(zip(sent, kept, strict=True)):
            yield from lost(one, other, f"{path}/{number}")
    elif sent != kept:
        yield path


def test_the_dashboard_holds_nothing_that_grafana_does_not_know() -> None:
    """Its own types, made from its schema, keep every member: an unknown one would be dropped."""
    register_default_plugins()
    kept = json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))
    assert [*lost(DASHBOARD, kept)] == []


def test_panels_are_side_by_side_and_describe_themselves() -> None:
    cells = [
        (column, line)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for column in range(place["x"], place["x"] + place["w"])
        for line in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(column for column, _ in cells) < 24
    identifiers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(identifiers)) == len(identifiers)
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
