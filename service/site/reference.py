"""The API reference: a page for each operation of the OpenAPI document, and the list of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any
from urllib.parse import quote

import orjson

from mappings import AGENT, COMPANY, LISTING, OFFICE, TEAM
from mappings.fields import View
from service.examples import example_record
from service.site.pages import HOST, REFERENCE_PAGE, Site, SitePage
from service.site.tables import FIELD_TABLE, example_cell, text_cell

Schema = dict[str, Any]
_GEOJSON, _NDJSON = "application/geo+json", "application/x-ndjson"
_FORMATS = {"date": "`YYYY-MM-DD`", "date-time": "ISO 8601", "uuid": "UUID"}


@dataclass(frozen=True)
class _Operation:
    """An operation of a document."""

    document: Schema
    path: str
    described: Schema

    @property
    def page(self) -> SitePage:
        name = f"{REFERENCE_PAGE.name}/{self.described['operationId'].replace('_', '-')}"
        return SitePage(name, self.described["summary"], "\n".join(self._lines()))

    @property
    def group(self) -> str:
        return str(self.described["tags"][0])

    @property
    def request(self) -> str:
        """Its method and path, from the root of the host."""
        servers: list[Schema] = self.described.get("servers") or self.document["servers"]
        return f"GET {servers[0]['url'].rstrip('/')}{self.path}"

    def _lines(self) -> Iterator[str]:
        yield f"# {self.described['summary']}\n\n`{self.request}`\n\n{self.described['description']}\n"
        yield f"```bash\n{self._curl()}\n```\n"
        named = {one["name"]: one for one in reversed(self.described["parameters"])}
        if parameters := [one for one in self.described["parameters"] if one is named[one["name"]]]:
            yield from ("## Parameters\n", "| Parameter | Type | Meaning | Example |", "|---|---|---|---|")
            yield from map(_parameter_row, sorted(parameters, key=lambda parameter: not parameter.get("required")))
        yield "\n## Response\n"
        yield from self._response(next(iter(self.described["responses"].values())))
        yield "## Errors\n"
        statuses = sorted(status for status in self.described["responses"] if status >= "400")
        rows = (f"| {status} | {text_cell(self._component('responses', status))} |" for status in statuses)
        yield from _closed(", ".join(statuses), "| Status | When |", "|---|---|", *rows)
        yield "The [problem codes](/docs/problems) say more."

    def _curl(self) -> str:
        required = [parameter for parameter in self.described["parameters"] if parameter.get("required")]
        values = {parameter["name"]: quote(parameter_example(parameter), safe="") for parameter in required}
        query = [f"{one['name']}={values[one['name']]}" for one in required if one["in"] == "query"]
        address = self.path.format_map(values) + ("?" if query else "") + "&".join(query)
        if self.described.get("security") == []:
            return f'curl -sS "{HOST}{self.request.removeprefix("GET ").removesuffix(self.path)}{address}"'
        return f'curl -sS -H "x-api-key: $KEY" "$API{address}"'

    def _response(self, response: Schema) -> Iterator[str]:
        for media_type, content in response.get("content", {}).items():
            if media_type == _GEOJSON:
                yield f"`{media_type}`: the same as [GeoJSON](/docs/geojson).\n"
                continue
            yield f"`{media_type}`: {response['description']}\n"
            # All lines of a stream have a form of their own; parameters choose other forms of a record.
            forms = content["schema"].get("anyOf", [content["schema"]])
            examples = [example["value"] for example in content.get("examples", {}).values()]
            for form in forms if media_type == _NDJSON else forms[:1]:
                yield from self._tables(form, next(iter(examples), None))
            if examples:
                yield from _closed("Example", f"```json\n{orjson.dumps(examples[0]).decode()}\n```")
        names = response.get("headers", {})
        rows = (f"| `{name}` | {text_cell(self.document['components']['headers'][name])} |" for name in names)
        yield from _closed("Headers", "| Header | Meaning |", "|---|---|", *rows)

    def _tables(self, schema: Schema, example: Any) -> Iterator[str]:
        """Yield a table of the fields of an object, and below it one of each kind of object in it."""
        found, shown = [(schema, example)], set[str]()
        for outer, value in found:
            name, resolved = self._resolved(outer)
            if _is_array(resolved):
                found.append((resolved["items"], next(iter(value or ()), None)))
            elif name not in shown and (members := resolved.get("properties")):
                shown.add(name)
                yield f"### {name or 'Fields'}\n\n{text_cell(resolved)}\n"
                yield from FIELD_TABLE
                values = {member: (value or {}).get(member) for member in members}
                yield from (f"| `{member}` | {self._cells(members[member], values[member])} |" for member in members)
                yield ""
                found += [(members[member], values[member]) for member in members]

    def _cells(self, schema: Schema, value: Any) -> str:
        name, resolved = self._resolved(schema)
        # What is an object of a name has a table of its own.
        has_table = name or self._resolved(resolved.get("items", {}))[0]
        shown = value if value not in (None, []) else next(iter(resolved.get("examples", ())), value)
        return f"{self._label(schema)} | {text_cell(schema)} | {'' if has_table else example_cell(shown)}"

    def _resolved(self, schema: Schema) -> tuple[str, Schema]:
        """Return a schema without references and null, and the name of what it refers to."""
        schema = next((form for form in schema.get("anyOf", ()) if form != {"type": "null"}), schema)
        if "$ref" not in schema:
            return "", schema
        name = schema["$ref"].rpartition("/")[2]
        return name, self.document["components"]["schemas"][name]

    def _label(self, schema: Schema) -> str:
        name, resolved = self._resolved(schema)
        if name:
            return f"[{name}](#{name.lower()})"
        return f"array of {self._label(resolved['items'])}" if _is_array(resolved) else type_label(resolved)

    def _component(self, kind: str, status: str) -> Schema:
        response: Schema = self.described["responses"][status]
        found: Schema = (
            self.document["components"][kind][response["$ref"].rpartition("/")[2]] if "$ref" in response else response
        )
        return found


def _is_array(schema: Schema) -> bool:
    return "array" in schema.get("type", ()) and schema["items"] != {}


def _closed(summary: str, *lines: str) -> Iterator[str]:
    """Yield what a reader opens."""
    yield from (f'<details class="more">\n<summary>\n\n{summary}\n\n</summary>\n', *lines, "\n</details>\n")


def type_label(schema: Schema) -> str:
    """Return the JSON type of a value, without null, and its form or limits."""
    if "enum" in schema:
        return "one of " + ", ".join(f"`{value}`" for value in schema["enum"])
    types = schema.get("type", "any JSON value")
    name = next(kind for kind in types if kind != "null") if isinstance(types, list) else types
    words = [_FORMATS.get(schema.get("format", ""), ""), *_limits(schema)]
    return ", ".join(filter(None, (name, *words)))


def _limits(schema: Schema) -> Iterator[str]:
    if "maximum" in schema:
        yield f"{schema['minimum']:,} to {schema['maximum']:,}"
    if "maxLength" in schema:
        yield f"{schema['minLength']} to {schema['maxLength']} characters"


def _parameter_row(parameter: Schema) -> str:
    schema = parameter["schema"]
    label = [type_label(schema)]
    if parameter.get("required"):
        label.append("required")
    if "default" in schema:
        label.append(f"default `{str(schema['default']).lower()}`")
    meaning = text_cell(parameter)
    return f"| `{parameter['name']}` | {', '.join(label)} | {meaning} | `{parameter_example(parameter)}` |"


def parameter_example(parameter: Schema) -> str:
    """Return a text that the parameter accepts."""
    schema = parameter["schema"]
    # Of several words, the last is not the default.
    general = schema["enum"][-1] if "enum" in schema else "true"
    return _examples().get(parameter["name"], str(general))


@cache
def _examples() -> dict[str, str]:
    """Return examples of parameters by name: those of fields of the same name, and the others."""
    records = [example_record(resource, View.INDEX, underscored=False) for resource in (COMPANY, OFFICE, AGENT)]
    shown = {name: str(value) for record in records for name, value in record.items() if value}
    listing = example_record(LISTING, View.INDEX, underscored=False)[LISTING.identifier]
    return shown | {
        "last_platform_listing_id": listing,
        "platform_listing_id": listing,
        "platform_team_id": example_record(TEAM, View.INDEX, underscored=False)[TEAM.identifier],
        "guid": shown[AGENT.identifier],
        "email": shown["primary_email_address"],
        "source_agent_id": "1001",
        "mls_agent_id": "68274",
        "parent_company_id": "4100",
        "property_types": "1,2",
        **dict.fromkeys(("updated_since", "shared_partner_data_updated_since", "deactivated_since"), "1773400000"),
        **dict.fromkeys(("sold_since", "sold_before"), "1773400000"),
        "page_number": "2",
        "page_size": "50",
        "since": "lAHECB89h1GiDMTTzmsChaWBBJMACAg",
        "resource": "listings",
        "resources": "listings,agents",
        "wait": "20",
        "after": f"{shown[COMPANY.identifier]}:{listing}",
        "prefixes": "00,a3",
        "file": "20261124T021500123456Z-5f0c9a1e-00001.ndjson.zst",
        "verbose": "1",
    }


@cache
def _pages(site: Site) -> dict[SitePage, _Operation]:
    if not site.document:
        return {}
    document = orjson.loads(import_module(site.document).encoded_document(site.capabilities))
    found = [_Operation(document, path, methods["get"]) for path, methods in document["paths"].items()]
    return {operation.page: operation for operation in found}


def operation_pages(site: Site) -> tuple[SitePage, ...]:
    """Return a page for each operation of the document, in its order; none without a document."""
    return tuple(_pages(site))


@cache
def page_groups(site: Site) -> dict[str, tuple[SitePage, ...]]:
    """Return the pages of a deployment by group, those of operations behind the reference."""
    inner = {REFERENCE_PAGE: (REFERENCE_PAGE, *operation_pages(site))}
    return {
        name: tuple(one for page in pages for one in inner.get(page, (page,))) for name, pages in site.groups.items()
    }


def operation_lists(site: Site) -> str:
    """Return a table of the operations of each group, with links to their pages."""
    lines, group = list[str](), ""
    for page, operation in _pages(site).items():
        if operation.group != group:
            group = operation.group
            lines += [f"\n## {group}\n", "| Operation | What it does |", "|---|---|"]
        lines.append(f"| [`{operation.request}`]({page.path}) | {page.title} |")
    return "\n".join(lines)
