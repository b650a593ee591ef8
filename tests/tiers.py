"""Which tests `make test` runs: those that need nothing but Python, and the most telling ones with Elasticsearch.

`make check` runs all others: with Redis, Chromium, promtool, podman and npm, with nodes of their own, and long faults.
Without `--tier` all are collected.
"""

from functools import cache
from pathlib import Path

import pytest

TIERS = ("test", "check")
_TESTS = Path(__file__).parent

# What needs a program of others, nodes of its own, or minutes.
_OTHER_TOOLS = ("browser", "redis")  # beginnings of names of fixtures
_OTHERS = (
    "bench",
    "brokerage/doctor",
    "brokerage/keys/test_keys_on_full_disks.py",
    "brokerage/test_completion.py",
    "brokerage/test_confined_service.py",
    "brokerage/test_demo.py",
    "brokerage/test_workers.py",
    "chaos",
    "clients",
    "disasters",
    "embedded",
    "image",
    "indexer/indices/test_small_node.py",
    "indexer/source/test_bounds.py",
    "packaging/test_client_wheel.py",
    "packaging/test_files.py",
    "packaging/test_supply_chain.py",
    "packaging/test_wheel.py",
    "reso/dialects",
    "service/limits/test_costs.py",
    "service/limits/test_redis_buckets.py",
    "service/limits/test_redis_floods.py",
    "siege",
    "site/test_browser.py",
    "telemetry/test_dashboards_and_alerts.py",
    "upgrade",
)
# Of the tests with a node: gates, fences, licences, exports, feeds, filters, keys.
_WITH_NODE = (
    "contract/test_filters.py",
    "contract/test_forms.py",
    "contract/test_pages.py",
    "feed/test_changes.py",
    "feed/test_snapshot.py",
    "indexer/changes/test_fenced_sessions.py",
    "indexer/control/test_mark_store.py",
    "indexer/lock",
    "indexer/rebuild/test_identity_gate.py",
    "indexer/rebuild/test_swap_gate.py",
    "indexer/updates/test_update_of_other_data.py",
    "indexer/updates/test_update_run.py",
    "odata/test_filters.py",
    "security/test_display_oracles.py",
    "security/test_scope_matrix.py",
    "security/test_withdrawn_access.py",
    "simulation/test_kit.py",
)


def tier_of(item: pytest.Item) -> str:
    """Return the tier of a test, by its file and its fixtures."""
    fixtures: list[str] = getattr(item, "fixturenames", [])
    if needs_more_than_python(item.path) or any(name.startswith(_OTHER_TOOLS) for name in fixtures):
        return "check"
    return "test" if "engine_url" not in fixtures or _is_below(item.path, _WITH_NODE) else "check"


def needs_more_than_python(path: Path) -> bool:
    """Whether all tests of a file or folder are of `make check`, so that `make test` need not import them."""
    return _is_below(path, _OTHERS)


@cache
def _is_below(path: Path, names: tuple[str, ...]) -> bool:
    inner = path.relative_to(_TESTS)
    return any(inner.is_relative_to(name) for name in names)
