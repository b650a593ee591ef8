"""Earlier measurements are kept with new ones if both are of the same data and programs."""

from pathlib import Path

import msgspec
import pytest

from bench import arms
from bench.results import Results, begun, write
from tests.bench.made import results


@pytest.fixture
def earlier() -> Results:
    """An earlier run whose walk of the service failed."""
    found = results({arms.SERVICE: 10.0})
    found.absent = {"latency: an arm": "away", "walks": "broken"}
    return found


def test_stages_that_are_not_measured_again_are_kept(earlier: Results, tmp_path: Path) -> None:
    write(earlier, tmp_path / "results.json")
    later = msgspec.structs.replace(earlier.environment, date="2027-01-01")
    found = begun(tmp_path / "results.json", later)
    found.forget("walks")
    assert found.groups.keys() == earlier.groups.keys() != set()
    assert (found.walks, found.absent) == ([], {"latency: an arm": "away"})


@pytest.mark.parametrize("change", [{"listings": 7}, {"cores": 99}, {"versions": {"Python": "4.0"}}, {"page": 7}])
def test_results_of_other_data_or_programs_are_not_mixed_in(
    earlier: Results, tmp_path: Path, change: dict[str, object]
) -> None:
    write(earlier, tmp_path / "results.json")
    found = begun(tmp_path / "results.json", msgspec.structs.replace(earlier.environment, **change))
    assert (found.groups, found.walks, found.absent) == ({}, [], {})


def test_a_whole_run_begins_with_nothing(earlier: Results, tmp_path: Path) -> None:
    assert begun(None, earlier.environment).groups == {}
    assert begun(tmp_path / "results.json", earlier.environment).groups == {}


def test_a_group_is_forgotten_by_its_name(earlier: Results) -> None:
    others = earlier.groups.keys() - {"latency"}
    earlier.forget("latency")
    assert earlier.groups.keys() == others
    assert "latency: an arm" not in earlier.absent
    assert earlier.walks
