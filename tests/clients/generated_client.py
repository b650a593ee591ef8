"""Clients generated from the served document, with the programs of `/docs/clients`."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "service/site/text/clients.md"
MODULES = HERE / "node_modules"
PACKAGE = "brokerage_client"
# From the package index, so that a machine needs nothing else.
NODE = Path(sys.executable).parent / "node"

_PROGRAM = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class ProcessResult:
    """How a program ended, and what it wrote."""

    code: int
    output: str
    errors: str

    @property
    def all(self) -> str:
        """Everything that it wrote."""
        return self.output + self.errors


@dataclass(frozen=True)
class GeneratedClient:
    """A folder with generated code and the program that uses it."""

    folder: Path
    generation: ProcessResult
    environment: Mapping[str, str] = field(default_factory=dict)

    async def run(self, *command: str | Path, **environment: str) -> ProcessResult:
        """Run a command in the folder to its end."""
        return await run(*command, folder=self.folder, environment={**self.environment, **environment})


async def run(*command: str | Path, folder: Path, environment: Mapping[str, str]) -> ProcessResult:
    """Run a command to its end, while the service in this process goes on answering."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        cwd=folder,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    return ProcessResult(process.returncode or 0, output.decode(), errors.decode())


def programs() -> dict[str, str]:
    """Return the programs of the page by the names of their files."""
    return dict(_PROGRAM.findall(PAGE.read_text(encoding="utf-8")))


async def python_client(root: str, folder: Path) -> GeneratedClient:
    """Generate the Python package from the document below a root, and add the page's program."""
    # The generator has its work formatted by the `ruff` that is found first.
    environment = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    command = ("generate", "--url", f"{root}/openapi.json", "--meta", "none", "--output-path", PACKAGE)
    generating = await run(
        sys.executable, "-m", "openapi_python_client", *command, folder=folder, environment=environment
    )
    (folder / "read_all.py").write_text(programs()["read_all.py"], encoding="utf-8")
    return GeneratedClient(folder, generating, environment)


async def typescript_client(root: str, folder: Path) -> GeneratedClient:
    """Generate the types from the document below a root, and add the page's program."""
    _require_node()
    (folder / "node_modules").symlink_to(MODULES)
    for name in ("package.json", "tsconfig.json", "typed.ts"):
        shutil.copy(HERE / name, folder)
    (folder / "read_all.ts").write_text(programs()["read_all.ts"], encoding="utf-8")
    generator = MODULES / "openapi-typescript" / "bin" / "cli.js"
    command = (f"{root}/openapi.json", "--output", "brokerage.ts")
    return GeneratedClient(folder, await run(NODE, generator, *command, folder=folder, environment={"NO_COLOR": "1"}))


def _require_node() -> None:
    if not NODE.exists():
        pytest.fail("`node` is missing: run `make develop`.")
    if not (MODULES / "typescript").is_dir():
        pytest.fail("The packages of the TypeScript client are missing: `make tests/clients/node_modules`.")
