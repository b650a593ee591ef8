"""Variables that are named like settings and are none."""

from dataclasses import dataclass

import pytest

from cluster.settings import setting, unknown_settings


@dataclass(frozen=True)
class WebSettings:
    """Settings of one kind."""

    port: int = setting("BROKERAGE_PORT", 80, "A number.")
    workers: int = setting("BROKERAGE_WORKERS", 1, "A number.")


@dataclass(frozen=True)
class EngineSettings:
    """Settings of another kind, one of them named otherwise."""

    url: str = setting("ELASTICSEARCH_URL", "", "A text.")
    index_prefix: str = setting("BROKERAGE_INDEX_PREFIX", "", "A text.")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("BROKERAGE_PROT", "BROKERAGE_PORT"),
        ("BROKERAGE_WORKER", "BROKERAGE_WORKERS"),
        ("BROKERAGE_WORKER_FILE", "BROKERAGE_WORKERS"),
        ("BROKERAGE_INDEX_PREFIXES", "BROKERAGE_INDEX_PREFIX"),
        ("BROKERAGE_port", None),
        ("BROKERAGE_XQZJ", None),
        ("BROKERAGE_", None),
        ("BROKERAGE_FILE", None),
    ],
)
def test_an_unknown_variable_is_reported_with_the_nearest_setting(name: str, nearest: str | None) -> None:
    assert unknown_settings({name: "1", "BROKERAGE_PORT": "1"}, (WebSettings, EngineSettings)) == {name: nearest}


def test_settings_their_files_and_variables_of_others_are_not_reported() -> None:
    known = {"BROKERAGE_PORT": "1", "BROKERAGE_WORKERS_FILE": "/f", "BROKERAGE_INDEX_PREFIX": "p"}
    assert (
        unknown_settings(
            {**known, "ELASTICSEARCH_URL": "u", "ELASTICSEARCH_ULR": "u", "PATH": "/"}, (WebSettings, EngineSettings)
        )
        == {}
    )


def test_all_of_them_are_reported_in_order() -> None:
    assert [*unknown_settings({"BROKERAGE_B": "", "BROKERAGE_A": ""}, (WebSettings,))] == ["BROKERAGE_A", "BROKERAGE_B"]


@pytest.mark.parametrize(
    ("name", "value", "is_reported"),
    [
        ("BROKERAGE_ES_SERVICE_HOST", "10.0.0.1", False),
        ("BROKERAGE_ES_SERVICE_PORT", "9200", False),
        ("BROKERAGE_ES_SERVICE_PORT_HTTPS", "9200", False),
        ("BROKERAGE_ES_PORT", "tcp://10.0.0.1:9200", False),
        ("BROKERAGE_ES_PORT", "9200", True),
        ("BROKERAGE_ES_PORT_9200_TCP", "tcp://10.0.0.1:9200", False),
        ("BROKERAGE_ES_PORT_9200_TCP_ADDR", "10.0.0.1", False),
        ("BROKERAGE_WORKERZ", "tcp://10.0.0.1:9200", True),
    ],
)
def test_variables_that_an_orchestrator_sets_for_its_services_are_ignored(
    name: str, value: str, is_reported: bool
) -> None:
    assert bool(unknown_settings({name: value}, (WebSettings,))) is is_reported
