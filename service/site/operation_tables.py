"""The tables of operations and parameters in Markdown, from their declarations."""

import re
from collections.abc import Iterator
from urllib.parse import quote

from mappings import COMPANY
from mappings.fields import View
from service.openapi.examples import example_record
from service.operation import Operation
from service.parameters.types import Choice, Parameter
from service.resources import OPERATIONS
from service.resources.response import Envelope, response_of

_PAGE_SIZE, _PAGE_NUMBER = "page_size", "page_number"
_VARIABLE = re.compile(r"\{\w+\}")
_HEAD = ("| name | meaning |", "|---|---|")


def operations() -> str:
    """Return a table row for each operation of the contract: path, result and paging."""
    return "\n".join(
        f"| `{operation.path}` | {_result(operation)} | {_paging(operation)} |" for operation in OPERATIONS
    )


def parameters() -> str:
    """Return a section for each operation of the contract: an example, and a row for each parameter."""
    return "\n".join(line for operation in OPERATIONS for line in _section(operation))


def _result(operation: Operation) -> str:
    response = response_of(operation)
    forms = {
        Envelope.NONE: f"one {response.resource.title}",
        Envelope.ARRAY: "an array",
        Envelope.NUMBERED_PAGE: f'`{{"page_number", "total_pages", "{response.resource.alias}"}}`',
        Envelope.WALK_PAGE: '`{"FinalPage", "Listings"}`',
    }
    first, *others = (forms[envelope] for envelope in response.envelopes(operation.schema))
    return "".join((first, *(f", or with `envelope=true` {other}" for other in others)))


def _paging(operation: Operation) -> str:
    fields = operation.schema.fields
    if _PAGE_SIZE not in fields:
        return ""
    size = fields[_PAGE_SIZE].load_default
    if _PAGE_NUMBER not in fields:
        return f"by last identifier, {size} per page"
    return f"by number, {size} per page" if size else f"by number if you send `{_PAGE_NUMBER}` or `{_PAGE_SIZE}`"


def _section(operation: Operation) -> Iterator[str]:
    yield f"\n### `{operation.path}`\n"
    yield from ("```bash", f'curl -sS -H "x-api-key: $KEY" "$API{_example_path(operation)}"', "```\n")
    if operation.schema.fields:
        yield from _HEAD
    for name, parameter in operation.schema.fields.items():
        yield f"| `{name}` | {_meaning(parameter)} |"  # type: ignore[arg-type]


def _example_path(operation: Operation) -> str:
    """Return the path with the identifier of the example record, and the parameters that are required."""
    response = response_of(operation)
    record = example_record(response.resource, response.view, underscored=False)
    path = _VARIABLE.sub(quote(str(record[response.resource.identifier]), safe=""), operation.path)
    required = [name for name, parameter in operation.schema.fields.items() if parameter.required]
    company = example_record(COMPANY, View.INDEX, underscored=False)["platform_company_id"]
    return f"{path}?{'&'.join(f'{name}={company}' for name in required)}" if required else path


def _meaning(parameter: Parameter) -> str:
    note = str(parameter.metadata["description"]).replace("|", "\\|")
    if isinstance(parameter, Choice):
        first, *others = (f"`{choice}`" for choice in parameter.choices)
        note = f"{first} (default), {', '.join(others)}. {note}"
    return f"Required. {note}" if parameter.required else note
