"""The draft of a column map from files: samples of their rows, and the text of the map."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from indexer.drafting.column_names import Confidence, resource_of
from indexer.drafting.table_draft import TableDraft
from indexer.drafting.value_drafts import field_named, quoted
from indexer.errors import SourceError
from indexer.source.tables.csv_rows import header_cells, read_csv_rows
from indexer.source.tables.table_files import PATTERN_SIGNS, TableFile, table_files
from indexer.source.tables.table_format import TableFormat
from mappings import COMPANY, Resource
from mappings.fields import FieldKind

_SAMPLED_ROWS = 2_000
_SAMPLED_BYTES = 1 << 24
_ROWS_OF_FURTHER_FILES = 50
_ROW_BYTES = 1 << 20
_ENVELOPE = ("updated_at", "platform_company_id")
_NOTE = "# Drafted by `brokerage index map`. Complete what is commented out, then run `brokerage index check`."


@dataclass(frozen=True)
class MapDraft:
    """The drafts of the tables, and the company if it is known."""

    tables: list[TableDraft]
    company: str | None
    others: list[str]  # files that are in no table

    @property
    def missing(self) -> list[str]:
        """What must be added before the map can be used."""
        missing = [] if self.company or all(map(_has_company, self.tables)) else ["platform_company_id"]
        unidentified = [table.resource for table in self.tables if table.resource.identifier not in _declared(table)]
        return missing + [f"{resource.alias}.record.{resource.identifier}" for resource in unidentified]

    @property
    def text(self) -> str:
        """The column map as TOML."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield _NOTE
        if self.company:
            yield f"platform_company_id = {quoted(self.company)}"
        elif not all(map(_has_company, self.tables)):
            yield '# platform_company_id = "..."  # required: the key of your company; or define it in [company]'
        for name in self.others:
            yield f"# {quoted(name)} has other columns than the files below: draft it on its own"
        for table in self.tables:
            yield from _table_lines(table, has_company=self.company is not None)


def _declared(table: TableDraft) -> set[str | None]:
    return {guess.field for guess in table.guesses if guess.is_declared} | {name for name, _ in table.derived}


def _has_company(table: TableDraft) -> bool:
    return table.resource is COMPANY or "platform_company_id" in _declared(table)


def draft_map(
    names: Sequence[str], folder: Path, *, company: str | None = None, resource: Resource | None = None
) -> MapDraft:
    """Draft the map of files, archives or folders; `folder` is where the map will be. Raises SourceError."""
    tables: dict[frozenset[str], TableDraft] = {}
    for name in names:
        _require_path(name)
        declared = TableFormat(files=[os.path.relpath(name, folder)])
        for file in table_files(declared, folder, "FILE"):
            _add(tables, file, resource)
    chosen: dict[Resource, TableDraft] = {}
    others: list[str] = []
    for table in tables.values():
        if chosen.setdefault(table.resource, table) is not table:
            others += table.files
    return MapDraft(list(chosen.values()), company, others)


def _require_path(name: str) -> None:
    if not Path(name).exists() and not PATTERN_SIGNS & {*name}:
        raise SourceError(f"{name} does not exist: name a CSV file, an archive or a folder with such files.")


def _add(tables: dict[frozenset[str], TableDraft], file: TableFile, resource: Resource | None) -> None:
    """Add a file to the table with its columns."""
    columns, rows = _sample(file)
    form, key = file.form, frozenset(columns)
    name = os.path.relpath(file.path, file.folder)
    if key not in tables:
        found = resource or resource_of(file.name, columns)
        written = {"encoding": quoted(form.encoding), "delimiter": quoted(form.delimiter)}
        tables[key] = TableDraft(found, [name], columns, rows, written)
        return
    table = tables[key]
    table.files += [name] if name not in table.files else []
    for one in rows[:_ROWS_OF_FURTHER_FILES]:
        by_name = dict(zip(columns, one, strict=True))
        table.rows.append([by_name[column] for column in table.columns])


def _sample(file: TableFile) -> tuple[list[str], list[list[str]]]:
    with file.open() as plain:
        rows = read_csv_rows(file.name, plain.reader, _ROW_BYTES, file.form)
        columns = header_cells(rows, file.name)
        sample, size = list[list[str]](), 0
        for row in islice(rows, _SAMPLED_ROWS):
            size += len(row.data)
            if size > _SAMPLED_BYTES:
                break
            sample += [row.cells] if len(row.cells) == len(columns) else []
    return columns, sample


def _unused_columns(table: TableDraft) -> list[str]:
    used = {guess.column for guess in table.guesses if guess.field}
    derived = "\n".join(text for _, text in table.derived)
    return [column for column in table.values if column not in used and quoted(column) not in derived]


def _table_lines(table: TableDraft, *, has_company: bool) -> Iterator[str]:
    yield f"\n[{table.resource.alias}]"
    yield f"files = [{', '.join(map(quoted, table.files))}]"
    yield from (f"{key} = {value}" for key, value in table.format.items())
    yield from _format_lines(table)
    members = {guess.field: guess for guess in table.guesses if guess.field in _ENVELOPE and guess.is_declared}
    updated = members.get("updated_at")
    yield f"updated_at = {updated.draft.text if updated else quoted('on change')}"
    if "platform_company_id" in members and not has_company and table.resource is not COMPANY:
        yield f"platform_company_id = {members['platform_company_id'].draft.text}"
    yield f"\n[{table.resource.alias}.record]"
    yield from _record_lines(table)


def _format_lines(table: TableDraft) -> Iterator[str]:
    form = table.number_form
    if form and (form.decimal, form.thousands) != (".", ""):
        yield f"decimal = {quoted(form.decimal)}"
        yield f"thousands = {quoted(form.thousands)}"
    if form and form.currency:
        yield f"currency = [{', '.join(map(quoted, form.currency))}]"
    if empty := sorted({text for values in table.values.values() for text in values.empty_texts}):
        yield f"empty = [{', '.join(map(quoted, empty))}]"
    kinds = {field_named(table.resource, guess.field).kind for guess in table.guesses if guess.field}
    if FieldKind.DATE_TIME in kinds:
        yield '# time_zone = "America/New_York"  # of times without an offset; UTC if absent'


def _record_lines(table: TableDraft) -> Iterator[str]:
    guesses = [guess for guess in table.guesses if guess.field not in {None, *_ENVELOPE}]
    for guess in guesses:
        prefix = "" if guess.is_declared else "# "
        reasons = [guess.draft.note, "guessed by values or similar names" if guess.confidence is Confidence.LOW else ""]
        note = "; ".join(filter(None, reasons))
        yield f"{prefix}{guess.field} = {guess.draft.text}{f'  # {note}' if note else ''}"
    for name, text in table.derived:
        yield f"{name} = {text}"
    if unused := _unused_columns(table):
        yield f"# Columns that are not read: {', '.join(map(quoted, unused))}"
