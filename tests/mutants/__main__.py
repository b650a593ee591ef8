"""Apply the mutations of `mutations.toml` one at a time, and print those that their tests do not see.

Nothing is changed here: each is applied to a temporary copy of the checkout. Exit code 1 if one survives, its text is
not there exactly once, none of its tests exists, or they fail without it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from embedded import EmbeddedCluster, NodeOptions

_LIST = Path(__file__).with_name("mutations.toml")
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "node_modules", "__pycache__", ".*_cache", ".hypothesis")
_TIMEOUT_SECONDS = 600
_CAUGHT = "caught"
_OUTCOMES = {0: "SURVIVED", 1: _CAUGHT}  # by the exit code of pytest; with any other it could not run the tests


class Edit(NamedTuple):
    """What to replace, and the files that have it: exact text, or a regex after `re:`."""

    files: str
    text: str
    replacement: str


class Mutation(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A mutation: the first edit that is possible is made, the tests that exist run; `node` if on Elasticsearch."""

    name: str
    edits: list[Edit]
    tests: list[str]
    node: bool = False


class Checkout:
    """A temporary copy of a checkout, whose tests run in the environment of the original."""

    def __init__(self, original: Path, copy: Path) -> None:
        """Copy the files."""
        self._original, self._root = original, copy
        shutil.copytree(original, copy, ignore=self._left_out, symlinks=True)

    def _left_out(self, folder: str, names: list[str]) -> set[str]:
        return {*_LEFT_OUT(folder, names), *(["build"] if Path(folder) == self._original else [])}

    def tests_of(self, mutation: Mutation) -> list[str]:
        """Return the tests that exist."""
        return [name for name in mutation.tests if self._has(*name.partition("::")[::2])]

    def _has(self, path: str, function: str) -> bool:
        file = self._root / path
        return file.exists() and (not function or f"def {function}(" in file.read_text())

    def outcome(self, mutation: Mutation) -> tuple[str, str]:
        """Apply a mutation, run its tests, and undo it; return also which of them saw it."""
        tests, found = self.tests_of(mutation), next(filter(None, map(self._changed, mutation.edits)), None)
        if found is None or not tests:
            return "NO MATCH" if tests else "NO TESTS", ""
        path, changed = found
        before, times = path.read_text(), path.stat()
        path.write_text(changed)
        try:
            code, failed = self.run(tests)
        finally:
            path.write_text(before)
            # Python knows by this time whether what it has compiled is current.
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        return _OUTCOMES.get(code, "BROKEN"), failed

    def _changed(self, edit: Edit) -> tuple[Path, str] | None:
        """Return the file with the text, and what it becomes; None unless the text is there exactly once."""
        regex = edit.text.removeprefix("re:")
        pattern = re.compile(re.escape(edit.text) if regex == edit.text else regex)
        texts = ((path, path.read_text()) for path in self._root.glob(edit.files))
        found = [(path, match) for path, text in texts for match in pattern.finditer(text)]
        if len(found) != 1:
            return None
        [(path, match)] = found
        replacement = edit.replacement if regex == edit.text else match.expand(edit.replacement)
        return path, match.string[: match.start()] + replacement + match.string[match.end() :]

    def run(self, tests: Sequence[str]) -> tuple[int, str]:
        """Run tests until one fails; return the exit code and the test."""
        # Before the packages of the environment, which are those of the original.
        paths = os.pathsep.join(map(str, (self._root, self._root / "consumer")))
        try:
            run = subprocess.run(  # noqa: S603 - a command of ours
                [self._original / ".venv/bin/python", "-m", "pytest", "-n", "0", "-x", "-q", *tests],
                cwd=self._root,
                env={**os.environ, "PYTHONPATH": paths},
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return -1, "timeout"
        failed = re.search(r"^(?:FAILED|ERROR) (tests/.+?)(?: - |$)", run.stdout, re.MULTILINE)
        return run.returncode, failed[1] if failed else ""


@contextmanager
def _node(*, is_needed: bool) -> Iterator[None]:
    """Let all tests share the Elasticsearch that is named, else one that starts now."""
    with ExitStack() as stack:
        if is_needed and "ELASTICSEARCH_URL" not in os.environ:
            os.environ["ELASTICSEARCH_URL"] = stack.enter_context(EmbeddedCluster(NodeOptions(ephemeral=True))).url
        yield


def main() -> int:
    """Run the mutations that the arguments select."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", type=re.compile, default="", metavar="REGEX", help="mutations whose name matches")
    parser.add_argument("--checkout", type=Path, default=_LIST.parents[2], metavar="PATH", help="another checkout")
    options = parser.parse_args()
    rooms = msgspec.convert(tomllib.loads(_LIST.read_text()), dict[str, list[Mutation]])
    named = {f"{room}: {each.name}": each for room, mutations in rooms.items() for each in mutations}
    chosen = {name: each for name, each in named.items() if options.only.search(name)}
    if not chosen:
        parser.error(f"--only: no mutation is named like {options.only.pattern!r}.")
    missed = []
    with tempfile.TemporaryDirectory() as folder, _node(is_needed=any(each.node for each in chosen.values())):
        checkout = Checkout(options.checkout.resolve(), Path(folder) / "checkout")
        code, failed = checkout.run(sorted({test for each in chosen.values() for test in checkout.tests_of(each)}))
        if code:
            sys.exit(f"The tests do not pass without a mutation: {failed}")
        for name, each in chosen.items():
            begun = time.monotonic()
            outcome, test = checkout.outcome(each)
            print(f"{outcome:9}{time.monotonic() - begun:4.0f} s  {name}  {test}", flush=True)
            missed += [] if outcome == _CAUGHT else [f"{outcome:9} {name}"]
    print("", f"{len(chosen) - len(missed)} of {len(chosen)} mutations were caught.", *missed, sep="\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
