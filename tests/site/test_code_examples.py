"""The examples that pages derive from curl commands: which they take, what they make of them, and that they run."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from service.resources import OPERATIONS
from service.resources.responses import response_of
from service.site.markdown import ADDRESS, KEY, javascript_example, parse_curl, python_example
from service.site.rendering import page_text, site_pages
from tests.site.conftest import RunningService
from tests.site.page_parser import SITE, page_html

_KEY_HEADER = '-H "x-api-key: $KEY"'
# As installed for the tests of clients.
_NODE = Path(sys.executable).parent / "node"


def _commands() -> list[str]:
    texts = [page_text(page, SITE) for page in site_pages(SITE).values()]
    return [code for text in texts for code in re.findall(r"(?ms)^```(?:bash|sh)[^\n]*\n(curl .*?)^```$", text)]


def test_a_command_is_read_with_its_headers_and_variables() -> None:
    found = parse_curl('curl -sS -i -H "Authorization: Bearer $KEY" \\\n  "$API/reso/Property?\\$top=2&x=$TOKEN"')
    assert found is not None
    assert (found.path, found.variables) == ("/reso/Property?$top=2&x=$TOKEN", ("TOKEN",))
    assert found.headers == {"Authorization": "Bearer $KEY"}
    assert 'url = f"{API}/reso/Property?$top=2&x={TOKEN}"' in python_example(found)
    assert "const url = `${API}/reso/Property?$top=2&x=${TOKEN}`;" in javascript_example(found)
    assert 'f"Bearer {KEY}"' in python_example(found)


def test_lines_are_read_one_by_one() -> None:
    found = parse_curl(f'curl {_KEY_HEADER} "$API/snapshot/listings"')
    assert found is not None
    assert "for line in response:\n        print(json.loads(line))" in python_example(found)
    assert "for (const line of lines) console.log(JSON.parse(line));" in javascript_example(found)


@pytest.mark.parametrize(
    "command",
    [
        "pip install brokerage",
        'curl "$API/a"\ncurl "$API/b"',
        'curl "$API/a" > file',
        'curl -o file "$API/a"',
        "curl https://elsewhere.example",
        "",
    ],
)
def test_what_is_no_single_request_stays_as_it_is(command: str) -> None:
    assert parse_curl(command) is None


def test_every_operation_has_an_example() -> None:
    requests = [parse_curl(command) for command in _commands()]
    paths = {request.path.partition("?")[0] for request in requests if request is not None}
    for operation in OPERATIONS:
        pattern = re.sub(r"\\\{\w+\\\}", "[^/{]+", re.escape(operation.path))
        assert any(re.fullmatch(pattern, path) for path in paths), operation.path
        html = page_html(f"/docs/reference/{response_of(operation).operation_id.replace('_', '-')}")
        assert html.count('data-language="Python"') == html.count('data-language="JavaScript"') == 1, operation.path


@pytest.mark.parametrize("path", ["/companies", "/listings?platform_company_id=acme"])
async def test_python_and_javascript_do_what_curl_does(served: RunningService, path: str) -> None:
    request = parse_curl(f'curl -sS {_KEY_HEADER} "$API{path}"')
    assert request is not None
    for program, example in (
        ((sys.executable, "-c"), python_example(request)),
        ((str(_NODE), "--input-type=module", "-e"), javascript_example(request)),
    ):
        # The page fills these in.
        filled = example.replace(ADDRESS, f"{served.url}/v1").replace(KEY, served.key)
        printed = await _run(*program, filled)
        assert ("acme" in printed) or ("L1" in printed), printed


async def _run(*command: str) -> str:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    printed, complained = await process.communicate()
    assert process.returncode == 0, complained.decode()
    return printed.decode()
