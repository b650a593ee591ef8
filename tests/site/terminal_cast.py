"""Records the terminal of the README: `python -m tests.site.terminal_cast` runs the commands and draws them as an SVG.

Needs `sqlite3` and `jq`. What is shown was printed by the commands; long lines are cut.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

from tests.brokerage.conftest import running
from tests.neighbours import steady_port
from tests.site.screenshots import FOLDER

_COLUMNS, _LINE_HEIGHT, _FONT_SIZE, _MARGIN = 98, 19, 13, 18
_WIDTH = 2 * _MARGIN + round(_COLUMNS * _FONT_SIZE * 0.602)
_PAUSE_SECONDS, _LINE_SECONDS = 1.2, 0.12
_COMPANY = "platform_company_id=evergreen-realty"
_COMMANDS = (
    f'curl -sH "x-api-key: $KEY" "$API/listings?{_COMPANY}" | jq -c ".Listings[] | [.City, .ListPrice]" | head -3',
    "brokerage-feed pull copy --url $API",
    'sqlite3 -box copy/copy.sqlite3 "SELECT city, count(*) AS listings, max(list_price) AS highest_price'
    ' FROM listings GROUP BY 1 ORDER BY 2 DESC LIMIT 3"',
)
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _record() -> Iterator[tuple[str, str]]:
    """Yield each command and what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"XDG_CACHE_HOME": folder}
        with running("demo", "--port", str(steady_port()), "--listings", "2000", environment=own) as demo:
            printed = demo.read_until("Ctrl-C stops")
            [served] = re.findall(r"^Serving .*$", printed, re.MULTILINE)
            yield "make demo", served
            root = re.findall(r"http://\S+/v1", served)[0]
            [key] = re.findall(r"^  (bk_\S+)$", printed, re.MULTILINE)[1:]
            environment = os.environ | {"API": root, "KEY": key, "BROKERAGE_API_KEY": key, "TERM": "xterm"}
            environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
            for command in _COMMANDS:
                # `script` gives it a terminal.
                yield command, subprocess.run(  # noqa: S603 - commands of this file
                    ["script", "-qec", command, "/dev/null"],  # noqa: S607
                    cwd=folder, env=environment, check=True, capture_output=True,
                ).stdout.decode()  # fmt: skip


def _lines(command: str, printed: str) -> Iterator[tuple[str, str]]:
    """Yield the class and the text of each line."""
    for number, part in enumerate(_wrapped(f"$ {command}")):
        yield "command", part if number == 0 else f"    {part}"
    for line in printed.replace("\r\n", "\n").rstrip().split("\n"):
        text = _CONTROL.sub("", line.rpartition("\r")[2])
        yield "output", text if len(text) <= _COLUMNS else text[: _COLUMNS - 1] + "…"
    yield "output", ""


def _wrapped(text: str) -> list[str]:
    words, lines = text.split(" "), [""]
    for word in words:
        if len(lines[-1]) + len(word) + 2 > _COLUMNS - 4:
            lines[-1] += "\\"
            lines.append("")
        lines[-1] += f"{word} "
    return [line.rstrip(" ") for line in lines]


def _svg(recorded: list[tuple[str, str]]) -> str:
    rows, delay, place = [], 0.0, _MARGIN + _FONT_SIZE
    for command, printed in recorded:
        for kind, text in _lines(command, printed):
            style = f'style="animation-delay:{delay:.2f}s"'
            rows.append(f'<text x="{_MARGIN}" y="{place}" class="{kind}" {style}>{escape(text, quote=False)}</text>')
            place += _LINE_HEIGHT
            delay += _PAUSE_SECONDS if kind == "command" else _LINE_SECONDS
        delay += _PAUSE_SECONDS
    height = place + _MARGIN - _LINE_HEIGHT
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">
<title>A demo, a page of listings, a verified copy in SQLite, and a query</title>
<style>
text {{ font: {_FONT_SIZE}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  fill: #d7dde5; white-space: pre; animation: shown 0.01s both; }}
.command {{ fill: #7fd8b0; }}
@keyframes shown {{ from {{ opacity: 0; }} to {{ opacity: 1; }} }}
@media (prefers-reduced-motion) {{ text {{ animation: none; }} }}
</style>
<rect width="100%" height="100%" rx="10" fill="#16202b"/>
{chr(10).join(rows)}
</svg>
"""


if __name__ == "__main__":
    (FOLDER / "terminal.svg").write_text(_svg(list(_record())), encoding="utf-8")
