"""Commands that end: the jobs of the manifests, keys, and `doctor`, each in a container without rights."""

import json
from pathlib import Path

import pytest

from brokerage_feed.terminal import ExitCode
from tests.image.conftest import LISTINGS
from tests.image.manifest_flags import pod_flags
from tests.image.podman import PodmanFailed
from tests.image.site import Site
from tests.packaging.manifests import PODS


def test_the_rebuild_of_the_manifests_loads_a_source_that_it_cannot_write(loaded: str) -> None:
    assert _indexed(loaded)["listings"] == LISTINGS


def _indexed(printed: str) -> dict[str, int]:
    """Return the numbers of records that a job says it has written, by resource."""
    return {run["resource"]: run["indexed"] for run in map(json.loads, printed.splitlines()) if "indexed" in run}


def test_the_update_of_the_manifests_finds_nothing_new(site: Site, loaded: str, source: Path) -> None:
    assert loaded
    assert set(_indexed(site.job("brokerage-update", source)).values()) == {0}


def test_keys_are_listed_by_another_container(site: Site, key: str) -> None:
    listed = site.once("keys", "list")
    assert key.split("_")[1] in listed
    assert key not in listed


def test_an_unreachable_cluster_ends_a_job_with_its_exit_code(site: Site) -> None:
    flags = [*pod_flags(PODS["brokerage-update"]), "--network=none", "--env=ELASTICSEARCH_URL=http://127.0.0.1:9200"]
    done = site.podman.attempt("run", "--rm", *flags, site.image, "index", "status")
    assert done.returncode == ExitCode.UNAVAILABLE
    with pytest.raises(PodmanFailed, match="Check ELASTICSEARCH_URL"):
        site.podman.run("run", "--rm", *flags, site.image, "index", "status")
