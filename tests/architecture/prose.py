"""Texts that people read, and the words that they must not contain.

`banned_words.txt` holds a case-insensitive regular expression per line. Code is not searched: fenced and inline code in
pages, backquoted code in docstrings, and strings without a blank, which are names rather than messages.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

from tests.architecture.graph import ROOT, modules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BANNED = [
    re.compile(line, re.IGNORECASE)
    for line in Path(__file__).with_name("banned_words.txt").read_text(encoding="utf-8").splitlines()
]
# Folders that hold no pages of the product.
_OTHER_FOLDERS = {".venv", ".git", "node_modules", "dist", "build"}
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`[^`\n]*`")


def pages() -> list[Path]:
    """Return all Markdown pages of the repository, the texts of the documentation site included."""
    found = (path for path in ROOT.rglob("*.md") if not _OTHER_FOLDERS & {*path.relative_to(ROOT).parts})
    return sorted(found)


def page_findings(path: Path) -> list[str]:
    """Return the banned words of a page, each as `path:line: word`."""
    text = _FENCED.sub(lambda code: "\n" * code[0].count("\n"), path.read_text(encoding="utf-8"))
    return list(_findings(path, enumerate(text.splitlines(), start=1)))


def package_findings(package: str) -> list[str]:
    """Return the banned words in docstrings, comments and messages of a package, each as `path:line: word`."""
    return [found for path in modules(package).values() for found in _findings(path, _texts(path))]


def _findings(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[str]:
    for number, line in lines:
        words = {found[0] for banned in BANNED for found in banned.finditer(_INLINE.sub("``", line))}
        yield from (f"{path.relative_to(ROOT).as_posix()}:{number}: {word}" for word in sorted(words))


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each line of the comments and of the strings with a blank in them, with its number."""
    source = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from enumerate(node.value.splitlines(), start=node.lineno)
