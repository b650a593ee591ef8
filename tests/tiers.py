"""Which tests `make test` runs: those that need nothing but Python, and the most telling ones with Elasticsearch.

`make check` runs all others: with Redis, Chromium, promtool, podman and npm, with nodes of their own, and long faults.
Without `--tier` all are collected.
"""

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
    "brokerage/test_audit_command.py",
    "contract/test_filters.py",
    "contract/test_forms.py",
    "contract/test_pages.py",
    "contract/test_search_profiles.py",
    "exports/test_change_files.py",
    "exports/test_serving.py",
    "feed/test_changes.py",
    "feed/test_digest.py",
    "feed/test_display_licence.py",
    "feed/test_snapshot.py",
    "indexer/changes/test_fenced_sessions.py",
    "indexer/control",
    "indexer/lock",
    "indexer/rebuild/test_covered_companies.py",
    "indexer/rebuild/test_identity_gate.py",
    "indexer/rebuild/test_swap_gate.py",
    "indexer/troubles/test_standing_list.py",
    "indexer/updates/test_exact_values.py",
    "indexer/updates/test_update_of_other_data.py",
    "indexer/updates/test_update_run.py",
    "odata/test_child_sets.py",
    "odata/test_filters.py",
    "odata/test_paging.py",
    "security/test_display_oracles.py",
    "security/test_scope_matrix.py",
    "security/test_withdrawn_access.py",
    "simulation/test_kit.py",
)


def tier_of(item: pytest.Item) -> str:
    """Return the tier of a test, by its file and its fixtures."""
    fixtures: list[str] = getattr(item, "fixturenames", [])
    if _is_below(item.path, _OTHERS) or any(name.startswith(_OTHER_TOOLS) for name in fixtures):
        return "check"
    return "test" if "engine_url" not in fixtures or _is_below(item.path, _WITH_NODE) else "check"


def _is_below(path: Path, names: tuple[str, ...]) -> bool:
    inner = path.relative_to(_TESTS)
    return any(inner.is_relative_to(name) for name in names)
