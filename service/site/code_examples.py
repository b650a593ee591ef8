"""Examples of requests in several languages, from the curl commands of the texts."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass

# What pages fill with the service's own address and the reader's key.
ADDRESS, KEY = "https://api.example.com/v1", "bk_…"
_ADDRESS_VARIABLE, _KEY_VARIABLE = "$API", "$KEY"
_IGNORED_OPTIONS = frozenset({"-s", "-S", "-sS", "-i", "--compressed"})
_VARIABLE = re.compile(r"\$([A-Z]+)")
_LINES_PATH = "/snapshot/"


@dataclass(frozen=True)
class ExampleRequest:
    """A GET request: its URL below the address, its headers, and the other shell variables in them."""

    path: str
    headers: dict[str, str]
    variables: tuple[str, ...]

    @property
    def has_lines(self) -> bool:
        """Whether the response is JSON lines."""
        return self.path.startswith(_LINES_PATH)


def parse_curl(command: str) -> ExampleRequest | None:
    """Return the request of a single curl command to the API; None for anything else."""
    words = shlex.split(command.replace("\\\n", " "))
    if words[:1] != ["curl"] or words.count("curl") > 1:
        return None
    url, headers, rest = "", {}, iter(words[1:])
    for word in rest:
        if word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word.startswith(_ADDRESS_VARIABLE) and not url:
            url = word.removeprefix(_ADDRESS_VARIABLE).replace("\\$", "$")
        elif word not in _IGNORED_OPTIONS:
            return None
    named = dict.fromkeys(_VARIABLE.findall(" ".join((url, *headers.values()))))
    return ExampleRequest(url, headers, tuple(name for name in named if name != _KEY_VARIABLE[1:])) if url else None


def python_example(request: ExampleRequest) -> str:
    """Return the request in Python, with the standard library."""
    shown = ["print(json.load(response))"]
    if request.has_lines:
        shown = ["for line in response:", "    print(json.loads(line))"]
    lines = [
        "import json",
        "import urllib.request",
        "",
        f'API = "{ADDRESS}"',
        f'KEY = "{KEY}"',
        *(f'{name} = "…"' for name in request.variables),
        f"url = {_python_text(_ADDRESS_VARIABLE + request.path)}",
        f"request = urllib.request.Request(url, headers={{{_members(request.headers, _python_text)}}})",
        "with urllib.request.urlopen(request) as response:",
        *(f"    {line}" for line in shown),
    ]
    return "\n".join(lines) + "\n"


def javascript_example(request: ExampleRequest) -> str:
    """Return the request in JavaScript, with `fetch`; Node runs it as a module, and so do browsers."""
    shown = ["console.log(await response.json());"]
    if request.has_lines:
        shown = [
            'const lines = (await response.text()).trim().split("\\n");',
            "for (const line of lines) console.log(JSON.parse(line));",
        ]
    lines = [
        f'const API = "{ADDRESS}";',
        f'const KEY = "{KEY}";',
        *(f'const {name} = "…";' for name in request.variables),
        f"const url = {_javascript_text(_ADDRESS_VARIABLE + request.path)};",
        f"const response = await fetch(url, {{ headers: {{ {_members(request.headers, _javascript_text)} }} }});",
        "if (!response.ok) throw new Error(`${response.status}: ${(await response.json()).detail}`);",
        *shown,
    ]
    return "\n".join(lines) + "\n"


def _python_text(text: str) -> str:
    """Return a text as a Python expression; a variable alone is its name."""
    if whole := _VARIABLE.fullmatch(text):
        return whole[1]
    inserted = _VARIABLE.sub(r"{\1}", text)
    return json.dumps(text) if inserted == text else 'f"' + inserted + '"'


def _javascript_text(text: str) -> str:
    """Return a text as a JavaScript expression; a variable alone is its name."""
    if whole := _VARIABLE.fullmatch(text):
        return whole[1]
    inserted = _VARIABLE.sub(r"${\1}", text)
    return json.dumps(text) if inserted == text else f"`{inserted}`"


def _members(headers: dict[str, str], text_of: Callable[[str], str]) -> str:
    return ", ".join(f"{json.dumps(name)}: {text_of(value)}" for name, value in headers.items())
