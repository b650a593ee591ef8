"""The TypeScript client: its types are there and hold, and it walks a feed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.clients import generated_client
from tests.clients.generated_client import HERE, MODULES, NODE, GeneratedClient, ProcessResult, typescript_client

_COMPILER = MODULES / "typescript" / "bin" / "tsc"
_EXPECTED = re.compile(r"^ *// @ts-expect-error.*\n", re.MULTILINE)
_ERROR = re.compile(r"^typed\.ts\(\d+,\d+\): error TS(\d+)", re.MULTILINE)


def test_the_generator_has_nothing_to_warn_of(typescript: GeneratedClient) -> None:
    assert (typescript.generation.code, typescript.generation.errors) == (0, "")
    assert "warn" not in typescript.generation.output.lower()
    assert (typescript.folder / "brokerage.ts").stat().st_size > 0


@pytest.fixture(scope="module")
async def compiled(typescript: GeneratedClient) -> ProcessResult:
    """What the compiler said; the programs are in `out`."""
    return await typescript.run(NODE, _COMPILER, "--outDir", "out", "--project", ".")


def test_the_programs_have_the_types_that_they_use(compiled: ProcessResult) -> None:
    assert (compiled.code, compiled.all) == (0, "")


async def test_every_wrong_use_is_found(typescript: GeneratedClient, tmp_path: Path) -> None:
    wrong, count = _EXPECTED.subn("", (HERE / "typed.ts").read_text(encoding="utf-8"))
    for name in ("brokerage.ts", "node_modules", "package.json", "tsconfig.json"):
        (tmp_path / name).symlink_to(typescript.folder / name)
    (tmp_path / "typed.ts").write_text(wrong, encoding="utf-8")
    checked = await GeneratedClient(tmp_path, typescript.generation).run(NODE, _COMPILER, "--noEmit", "--project", ".")
    assert checked.code != 0
    assert len(_ERROR.findall(checked.output)) == count == 7, checked.output


@pytest.mark.usefixtures("compiled")
async def test_the_program_walks_the_feed(
    typescript: GeneratedClient, asking: dict[str, str], feed: list[dict[str, Any]]
) -> None:
    walked = await typescript.run(NODE, "out/read_all.js", **asking)
    assert (walked.code, walked.errors) == (0, "")
    assert [json.loads(line) for line in walked.output.splitlines()] == feed


@pytest.mark.usefixtures("compiled")
async def test_a_refusal_ends_the_program_with_what_the_service_said(
    typescript: GeneratedClient, asking: dict[str, str]
) -> None:
    walked = await typescript.run(NODE, "out/read_all.js", **{**asking, "COMPANY": "unknown"})
    assert (walked.code, walked.output) == (1, "")
    assert "invalid-parameter: platform_company_id" in walked.errors


async def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated_client, "MODULES", tmp_path / "node_modules")
    with pytest.raises(pytest.fail.Exception, match="make tests/clients/node_modules"):
        await typescript_client("", tmp_path)
    monkeypatch.setattr(generated_client, "NODE", tmp_path / "node")
    with pytest.raises(pytest.fail.Exception, match="make develop"):
        await typescript_client("", tmp_path)
