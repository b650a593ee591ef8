"""What the product is made of is listed as it is locked, and containers may do no more than they must."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SERVICES: dict[str, Any] = YAML(typ="safe").load(ROOT / "compose.yaml")["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]


def _sbom_command() -> list[str]:
    (line,) = re.findall(r"^SBOM := \$\(BIN\)/(.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    command, *options = line.split()
    return [str(BIN / command), *options]


def test_the_list_of_parts_is_the_lock(tmp_path: Path) -> None:
    told = tmp_path / "sbom.json"
    command = [*_sbom_command(), "-o", str(told), "locks/production.txt"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # noqa: S603 - our own tool
    listed = json.loads(told.read_bytes())
    assert listed["bomFormat"] == "CycloneDX"
    assert listed["metadata"]["component"]["name"] == "brokerage"
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
