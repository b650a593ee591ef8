"""Figures come from medians of one run; what is missing is never compared with something else."""

import pytest

from bench import arms
from bench.arms import GROUPS
from bench.figures import Figure, figures
from bench.results import Results
from bench.spread import Spread, quantile, ratio, spread
from tests.bench.made import EVERYONE, results


def _values(found: Results) -> dict[str, float | None]:
    return {figure.name: round(figure.value.median, 3) if figure.value else None for figure in figures(found)}


def test_medians_quarter_points_and_quantiles() -> None:
    assert spread([5, 1, 3, 2, 4]) == Spread(3, 2, 4)
    assert spread([7]) == Spread(7, 7, 7)
    assert [quantile([3, 1, 2], share) for share in (0, 0.25, 0.5, 1)] == [1, 1.5, 2, 3]


def test_a_ratio_is_that_of_medians_and_its_spread_that_of_the_rounds() -> None:
    assert ratio([2, 4, 9], [1, 2, 3]) == Spread(2, 2, 2.5)
    with pytest.raises(ValueError, match="shorter"):
        ratio([1, 2], [1])


def test_every_figure_is_worked_out() -> None:
    assert list(_values(results(EVERYONE)).values()) == [
        round(10 / 12, 3),  # pages per second, 8 clients: service / same body
        1.0,  # 97 % / first page
        1.0,  # gzip / identity
        1.0,  # zstd / identity
        1.0,  # underscored / plain
        round(10 / 12, 3),  # shows
        1.0,  # processor seconds for a gigabyte: 1 ms for 1 MB
        1.2,  # service / same body
        1.0,  # the same page / distinct pages
        2.0,  # 2 workers / 1
    ]


def test_processor_time_is_that_of_the_service() -> None:
    found = results(EVERYONE, cpu={arms.SERVICE: 0.5})
    assert _values(found)["CPU seconds of the service per gigabyte"] == 0.5


def test_an_encoding_that_is_absent_is_not_measured_by_another() -> None:
    found = results(EVERYONE)
    for group in found.groups.values():
        for name in [name for name, each in group.items() if each.encoding == "gzip"]:
            del group[name]
    values = _values(found)
    assert values["pages per second, 8 clients: gzip / identity"] is None
    assert values["pages per second, 8 clients: zstd / identity"] == 1.0


def test_nothing_measured_gives_no_value_and_no_verdict() -> None:
    found = figures(Results(results({}).environment))
    assert {(figure.value, figure.reached) for figure in found} == {(None, None)}
    assert len(found) == len(figures(results(EVERYONE)))


@pytest.mark.parametrize(
    ("figure", "aim", "reached"),
    [
        (Figure("x", spread([1.07]), most=1.07), "≤ 1.07", True),
        (Figure("x", spread([1.08]), most=1.07), "≤ 1.07", False),
        (Figure("x", spread([0.85]), least=0.85), "≥ 0.85", True),
        (Figure("x", spread([0.84]), least=0.85), "≥ 0.85", False),
        (Figure("x", spread([0.84])), "reported", None),
        (Figure("x", None, least=0.85), "≥ 0.85", None),
    ],
)
def test_an_aim_is_a_most_or_a_least(figure: Figure, aim: str, reached: bool | None) -> None:
    assert (figure.aim, figure.reached) == (aim, reached)


@pytest.mark.parametrize("group", GROUPS)
def test_arms_of_a_group_have_names_of_their_own(group: str) -> None:
    assert len({arm.name for arm in GROUPS[group]}) == len(GROUPS[group])
