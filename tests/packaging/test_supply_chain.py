"""What the product is made of is listed as it is locked, and containers may do no more than they must."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cluster.settings import load_settings
from service.settings import ServiceSettings
from tests.architecture.graph import ALLOWED

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SERVICES: dict[str, Any] = YAML(typ="safe").load(ROOT / "compose.yaml")["services"]
# Besides the packages: what their installation reads.
IN_THE_BUILD = ("locks", "pyproject.toml", "PACKAGE.md", "CHANGELOG.md", "LICENSE", "docs")
OURS = [name for name, service in SERVICES.items() if "build" in service]


def _sbom_command() -> list[str]:
    (line,) = re.findall(r"^SBOM := \$\(BIN\)/(.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    command, *options = line.split()
    return [str(BIN / command), *options]


def test_the_list_of_parts_is_the_lock(tmp_path: Path) -> None:
    sbom = tmp_path / "sbom.json"
    command = [*_sbom_command(), "-o", str(sbom), "locks/production.txt"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # noqa: S603 - our own tool
    listed = json.loads(sbom.read_bytes())
    assert listed["bomFormat"] == "CycloneDX"
    assert listed["metadata"]["component"]["name"] == "brokerage-server"
    lock = (ROOT / "locks/production.txt").read_text(encoding="utf-8")
    locked = re.findall(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==(\S+)", lock, re.MULTILINE)
    assert sorted((part["name"], part["version"]) for part in listed["components"]) == sorted(locked)


@pytest.mark.parametrize("name", SERVICES)
def test_no_container_has_capabilities_or_gains_any(name: str) -> None:
    assert SERVICES[name]["cap_drop"] == ["ALL"]
    assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in SERVICES[name]


@pytest.mark.parametrize("name", OURS)
def test_our_containers_write_to_memory_only(name: str) -> None:
    assert SERVICES[name]["read_only"] is True
    assert [mount.partition(":")[0] for mount in SERVICES[name]["tmpfs"]] == ["/tmp"]  # noqa: S108 - in the container
    assert "user" not in SERVICES[name]  # the image's own


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_has_its_bounds(name: str) -> None:
    assert re.fullmatch(r"\d+[mg]", SERVICES[name]["mem_limit"])
    assert SERVICES[name]["pids_limit"] <= 4096


def test_each_starts_when_what_it_needs_is_there() -> None:
    awaited = {name: service.get("depends_on") for name, service in SERVICES.items()}
    assert awaited == {
        "elasticsearch": None,
        "indexer": {"elasticsearch": {"condition": "service_healthy"}},
        "service": {"indexer": {"condition": "service_completed_successfully"}},
    }
    assert "_cluster/health" in SERVICES["elasticsearch"]["healthcheck"]["test"][1]
    assert "/readyz" in SERVICES["service"]["healthcheck"]["test"][-1]


def test_the_service_is_given_the_time_that_its_way_out_takes() -> None:
    settings = ServiceSettings()
    seconds = int(SERVICES["service"]["stop_grace_period"].removesuffix("s"))
    assert seconds >= settings.drain_seconds + settings.deadline_seconds + 10


def test_strangers_reach_the_service_and_its_console_from_this_machine_alone() -> None:
    settings = load_settings(ServiceSettings, SERVICES["service"]["environment"])
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"service": [f"127.0.0.1:{port}:{port}" for port in (settings.port, settings.metrics_port)]}
    assert settings.metrics_port
    assert settings.metrics_host == "0.0.0.0"  # noqa: S104 - of the container


def test_the_image_is_made_of_the_packages_and_no_more() -> None:
    # The client is a distribution of its own, in this folder.
    packages = set(ALLOWED) - {"bench", "brokerage_feed"} | {"consumer"}
    copied = set(re.findall(r"^COPY (\w+) (?:\w+)$", DOCKERFILE, re.MULTILINE))
    assert copied == packages | {"docs"}  # of which the wheel holds the operators' guide
    kept = set((ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines())
    assert kept == {"*", "**/__pycache__"} | {f"!{name}" for name in {*packages, *IN_THE_BUILD}}
    # What runs has nothing to install with.
    assert "--without-pip" in DOCKERFILE


def test_the_image_runs_as_a_number_that_is_not_root_and_stops_in_order() -> None:
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    assert int(user) >= 1000
    assert "\nSTOPSIGNAL SIGTERM\n" in DOCKERFILE
    commands = re.findall(r"(?:^|\s)(?:CMD|ENTRYPOINT) (.)", DOCKERFILE)
    assert commands == ["["] * 3


def test_no_layer_holds_a_secret() -> None:
    given = re.findall(r"^(?:ENV|ARG) (.*)$", DOCKERFILE, re.MULTILINE)
    assert not [line for line in given if re.search(r"PASSWORD|API_KEY|TOKEN|SECRET", line)]
    assert not re.search(r"^(?:COPY|ADD) (?:--\S+ )*\.? ?\.$", DOCKERFILE, re.MULTILINE)
