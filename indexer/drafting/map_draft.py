"""The draft of a column map: the text of the map, from samples of the rows of files.

Of each table it declares the fields that its columns probably are, if the values of a column fit the field.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from cluster.terminal import counted
from indexer.drafting.columns import (
    CHOICES,
    ENVELOPE,
    IMAGES,
    Choices,
    ColumnValues,
    Confidence,
    NamedField,
    NumberForm,
    candidates,
    field_of_column,
    folded,
    resource_of,
    street_columns,
    words,
)
from indexer.drafting.repairs import Repair, quoted, repair_of
from indexer.drafting.sample import TableSample, read_sample, repeated_names
from indexer.errors import SourceError
from indexer.source.tables.cells import ISO
from indexer.source.tables.column_map import TableFormat
from indexer.source.tables.rows import PATTERN_SIGNS, TableFile, row_text, table_files, unread_files
from mappings import AGENT, COMPANY, LISTING, SOLD_LISTING, TEAM, Resource
from mappings.fields import Field, FieldKind, date_time, string

_MAX_MAPPED = 30
_UUID_FIELDS = {"ListAgentUUID": "agent", "SecondaryListAgentUUID": "agent", "BuyerAgentUUID": "agent"}
_LIST_SIGNS = ("|", ";", ",", " ")


class ValueDraft(NamedTuple):
    """A declaration in TOML, whether the values fit it, and what to look at."""

    text: str
    fits: bool = True
    note: str = ""


def inline(**members: str) -> str:
    """Return an inline table of members that are TOML already; empty ones are left out."""
    return "{" + ", ".join(f"{name} = {value}" for name, value in members.items() if value) + "}"


def _field_named(resource: Resource, name: str) -> Field:
    """Return a field of the record or of the envelope."""
    envelope = {"updated_at": date_time("updated_at"), "platform_company_id": string("platform_company_id")}
    return envelope.get(name) or next(field for field in resource.stored if field.name == name)


def _value_draft(resource: Resource, name: str, column: str, repair: Repair, usual: NumberForm | None) -> ValueDraft:
    """Return the declaration of a field from a column; `usual` are the signs of numbers that the table declares."""
    origin, values = {"column": quoted(column), **repair.members}, repair.values
    if (prefix := _uuid_prefix(resource, name)) and not values.are_uuids:
        origin = {"uuid5": quoted(f"{prefix} {{{column}}}"), **repair.members}
        draft = ValueDraft(inline(**origin), note="a UUID made from the value")
    elif prefix:
        draft = ValueDraft(inline(**origin))
    elif name == resource.identifier:
        draft = _identifier(origin, values)
    elif name == IMAGES:
        draft = _images(origin, values)
    elif name in CHOICES and values.values:
        draft = _choice(origin, values, CHOICES[name])
    else:
        draft = _by_kind(_field_named(resource, name).kind, origin, values, usual)
    return draft._replace(note="; ".join(filter(None, [*repair.notes, draft.note])))


Members = dict[str, str]  # of a cell, as TOML


def _uuid_prefix(resource: Resource, name: str) -> str | None:
    if name == resource.identifier and resource in {AGENT, TEAM}:
        return resource.name.lower()
    return _UUID_FIELDS.get(name)


def _identifier(origin: Members, values: ColumnValues) -> ValueDraft:
    forbidden = [sign for sign in " /" if any(sign in value for value in values.different)]
    parts = ", ".join(f'{quoted(sign)} = "-"' for sign in forbidden)
    note = "" if values.are_unique else "some values are repeated: rows with the same one are one record"
    return ValueDraft(inline(**origin, replace=f"{{{parts}}}" if parts else ""), note=note)


def _images(origin: Members, values: ColumnValues) -> ValueDraft:
    sign = next((one for one in _LIST_SIGNS if any(one in value for value in values.different)), "")
    return ValueDraft(f"[{{FullURL = {inline(**origin, split=quoted(sign) if sign else '')}}}]")


def _choice(origin: Members, values: ColumnValues, choices: Choices) -> ValueDraft:
    """Return the map of the texts of a field that has few values; what is guessed, and what is unknown, is a note."""
    if all(folded(value) in choices.own for value in values.different):
        return ValueDraft(inline(**origin))
    known = {value: choices.meaning(value) for value in list(values.different)[:_MAX_MAPPED]}
    pairs = ", ".join(f"{quoted(value)} = {quoted(meaning)}" for value, meaning in known.items() if meaning)
    guessed = [
        f"{value} = {meaning}" for value, meaning in known.items() if meaning and folded(value) not in choices.own
    ]
    unknown = [value for value, meaning in known.items() if not meaning]
    notes = [f"check: {', '.join(guessed)}" if guessed else ""]
    notes += [f"add to the map, or their rows are invalid: {', '.join(unknown)}" if unknown else ""]
    return ValueDraft(inline(**origin, map=f"{{{pairs}}}"), fits=bool(pairs), note="; ".join(filter(None, notes)))


def _by_kind(kind: FieldKind, origin: Members, values: ColumnValues, usual: NumberForm | None) -> ValueDraft:
    if not values.values:
        return ValueDraft(inline(**origin), note="no values")
    if kind in {FieldKind.INTEGER, FieldKind.NUMBER}:
        return _number(origin, values, usual)
    if kind in {FieldKind.DATE, FieldKind.DATE_TIME, FieldKind.UNIX}:
        return _dated(kind, origin, values)
    if kind is FieldKind.BOOLEAN and not values.are_booleans:
        pairs = ", ".join(f"{quoted(value)} = false" for value in list(values.different)[:_MAX_MAPPED])
        return ValueDraft(inline(**origin, map=f"{{{pairs}}}"), fits=False, note="set what each text means")
    if kind is FieldKind.UNTYPED and values.number_form:
        return _number({**origin, "type": quoted("number")}, values, usual)
    return ValueDraft(inline(**origin))


def _number(origin: Members, values: ColumnValues, usual: NumberForm | None) -> ValueDraft:
    form = values.number_form
    if form is None:
        return ValueDraft(inline(**origin), fits=False, note="not all values are numbers")
    if usual and not values.are_numbers(usual):
        origin = {**origin, "decimal": quoted(form.decimal), "thousands": quoted(form.thousands)}
    return ValueDraft(inline(**origin))


def _dated(kind: FieldKind, origin: Members, values: ColumnValues) -> ValueDraft:
    if kind is FieldKind.UNIX and values.number_form:
        return ValueDraft(inline(**origin))
    form = values.date_form
    if form is None:
        return ValueDraft(inline(**origin, format='"%Y"'), fits=False, note="set the format of the dates")
    notes = ["dates in several forms: the first that fits counts"] if len(form.formats) > 1 else []
    notes += ["day and month could be exchanged: check the format"] if form.is_ambiguous else []
    formats = [quoted(one) for one in form.formats or ((ISO,) if kind is FieldKind.UNIX else ())]
    written = formats[0] if len(formats) == 1 else f"[{', '.join(formats)}]" if formats else ""
    return ValueDraft(inline(**origin, format=written), note="; ".join(notes))


_ORDER = list(Confidence)
_SQUARE_FEET_PER_ACRE = 43_560


@dataclass(frozen=True)
class ColumnGuess:
    """What a column probably is: a field and its declaration, or nothing."""

    column: str
    field: str | None
    confidence: Confidence
    example: str
    draft: ValueDraft

    @property
    def is_declared(self) -> bool:
        """Whether the declaration is part of the map, not only a comment."""
        return self.field is not None and self.confidence is not Confidence.LOW and self.draft.fits


@dataclass
class TableDraft:
    """A sample of files with the same columns."""

    resource: Resource
    files: list[str]
    columns: list[str]
    rows: list[list[str]]
    format: dict[str, str] = field(default_factory=dict)  # keys and TOML values of the encoding and the delimiter
    repeated: dict[str, str] = field(default_factory=dict)  # columns that have their name in common with others
    samples: dict[str, TableSample] = field(default_factory=dict)  # by the name of the file
    _repairs: dict[tuple[str, str], Repair] = field(default_factory=dict)  # by column and field

    @cached_property
    def values(self) -> dict[str, ColumnValues]:
        """The values by column; blank headings are left out."""
        return {
            column: ColumnValues([row[index] for row in self.rows])
            for index, column in enumerate(self.columns)
            if column
        }

    @cached_property
    def guesses(self) -> list[ColumnGuess]:
        """The guesses in the order of the columns; each field is guessed once."""
        return [self._guess(column, self._chosen.get(column)) for column in self.values]

    @cached_property
    def number_form(self) -> NumberForm | None:
        """The signs that most columns of numbers have, with all currencies."""
        forms = [form for form in map(self._number_form, self._chosen.items()) if form]
        signs = Counter((form.decimal, form.thousands) for form in forms if form.thousands or form.has_fractions)
        (decimal, thousands), _ = signs.most_common(1)[0] if signs else ((".", ""), 0)
        currency = tuple(dict.fromkeys(sign for form in forms for sign in form.currency))
        return NumberForm(decimal, thousands, currency, has_fractions=True)

    def _number_form(self, chosen: tuple[str, NamedField]) -> NumberForm | None:
        column, named = chosen
        kinds = {FieldKind.INTEGER, FieldKind.NUMBER, FieldKind.UNTYPED}
        is_number = _field_named(self.resource, named.name).kind in kinds
        return self._repair(column, named.name).values.number_form if is_number else None

    def _repair(self, column: str, name: str) -> Repair:
        if (column, name) not in self._repairs:
            kind = FieldKind.STRING if name == IMAGES else _field_named(self.resource, name).kind
            repair = repair_of(name, kind, self.values[column], is_american=self._is_american)
            self._repairs[column, name] = repair
        return self._repairs[column, name]

    @cached_property
    def _is_american(self) -> bool:
        return any(values.meaning == "StateOrProvince" for values in self.values.values())

    @cached_property
    def _taken(self) -> set[str]:
        return {one.name for one in self._chosen.values()}

    @cached_property
    def _chosen(self) -> dict[str, NamedField]:
        """Return the field of each column, the surest column first."""
        named = [(column, one) for column in self.values if (one := self._named(column))]
        chosen: dict[str, NamedField] = {}
        taken: set[str] = set()
        for column, one in sorted(named, key=lambda pair: _ORDER.index(pair[1].confidence)):
            if one.name not in taken:
                taken.add(one.name)
                chosen[column] = one
        return chosen

    def _named(self, column: str) -> NamedField | None:
        named = field_of_column(self.resource, self.repeated.get(column, column))
        if named and column in self.repeated:
            return NamedField(named.name, Confidence.LOW)
        if named is None and self.resource in {LISTING, SOLD_LISTING} and (meaning := self.values[column].meaning):
            return NamedField(meaning, Confidence.LOW)
        return named

    def _guess(self, column: str, named: NamedField | None) -> ColumnGuess:
        values = self.values[column]
        if named is None:
            close = [name for name in candidates(self.resource, column) if name not in self._taken]
            note = f"perhaps {' or '.join(close)}" if close and values.values else ""
            return ColumnGuess(column, None, Confidence.LOW, values.example, ValueDraft("", fits=False, note=note))
        draft = self._draft(named.name, column)
        if name := self.repeated.get(column):
            notes = [f"several columns are named {name!r}: choose one", draft.note]
            draft = draft._replace(note="; ".join(filter(None, notes)))
        is_sure = named.confidence is Confidence.CERTAIN and not draft.note
        confidence = named.confidence if is_sure or named.confidence is Confidence.LOW else Confidence.HIGH
        return ColumnGuess(column, named.name, confidence, values.example, draft)

    def _draft(self, name: str, column: str) -> ValueDraft:
        return _value_draft(self.resource, name, column, self._repair(column, name), self.number_form)

    @cached_property
    def derived(self) -> list[tuple[str, str]]:
        """Fields that follow from several columns or by arithmetic, with their declarations."""
        return [*self._derived()]

    def _derived(self) -> Iterator[tuple[str, str]]:
        declared = {guess.field: guess for guess in self.guesses if guess.is_declared}
        names = {one.name for one in self.resource.stored}
        yield from self._identifiers(declared)
        if self.has_status and "Status" not in self._taken and (status := self._status_of_all):
            yield "Status", quoted(status)
        if (key := declared.get("platform_agent_id")) and "agent_uuid" not in declared:
            yield "agent_uuid", self._draft("agent_uuid", key.column).text
        if "Address" in names - declared.keys() and (parts := street_columns(list(self.values))):
            yield "Address", inline(join=f"[{', '.join(map(quoted, parts))}]")
        if (baths := declared.get("BathroomsTotal")) and not {"BathroomsFull", "BathroomsHalf"} & declared.keys():
            repair = self._repair(baths.column, "BathroomsTotal")
            form = repair.values.number_form
            if "weights" in repair.members:
                members = {"column": quoted(baths.column), **repair.members}
                yield "BathroomsFull", inline(**{**members, "weights": "[1, 0]"})
                yield "BathroomsHalf", inline(**{**members, "weights": "[0, 1]"})
            elif form and form.has_fractions:
                units = repair.members.get("units", "")
                yield "BathroomsFull", inline(formula=quoted(f"floor({{{baths.column}}})"), units=units)
                yield "BathroomsHalf", inline(formula=quoted(f"ceil({{{baths.column}}} % 1)"), units=units)
        lot = declared.get("LotSizeSquareFeet")
        if lot and "LotSizeAcres" not in declared:
            units = self._repair(lot.column, "LotSizeSquareFeet").members.get("units", "")
            formula = quoted(f"{{{lot.column}}} / {_SQUARE_FEET_PER_ACRE}")
            yield "LotSizeAcres", inline(formula=formula, units=units)

    @property
    def has_status(self) -> bool:
        return self.resource in {LISTING, SOLD_LISTING}

    @property
    def _status_of_all(self) -> str | None:
        """The status of the records of a table without a column for it: sales are sold, others as their files say."""
        if self.resource is SOLD_LISTING:
            return "Sold"
        names = [words(file.rpartition("/")[2]) for file in self.files]
        return "Active" if all({"active", "actives"} & {*one} for one in names) else None

    def _identifiers(self, declared: dict[str | None, ColumnGuess]) -> Iterator[tuple[str, str]]:
        """Let the number of an MLS be the identifier where there is no other, and the other way around."""
        if not self.has_status:
            return
        number, own = declared.get("ListingID"), declared.get("PlatformListingId")
        if number and not own:
            yield "PlatformListingId", self._draft("PlatformListingId", number.column).text
        elif own and not number and "mls" in folded(own.column):
            yield "ListingID", inline(column=quoted(own.column))


_ROWS_OF_FURTHER_FILES = 50
_NOTE = "# Drafted by `brokerage index map`. Complete what is commented out, then run `brokerage index check`."


class NewCompany(NamedTuple):
    """A company for the map to define. With `is_certain` it is known not to be live."""

    name: str
    is_certain: bool = True


@dataclass(frozen=True)
class MapDraft:
    """The drafts of the tables, the company if it is known, and its definition if it is new."""

    tables: list[TableDraft]
    company: str | None
    others: list[str]  # files that are in no table
    unread: list[str]  # files and folders in the named folders that are no tables
    definition: NewCompany | None = None

    @property
    def notes(self) -> Iterator[str]:
        """Sentences about what is not read as a row or a column, without full stops."""
        yield from (f"{name} has other columns than the files of the map: draft it on its own" for name in self.others)
        yield from (f"{name} is not read: name it as well if it has records" for name in self.unread)
        for table in self.tables:
            yield from _table_notes(table)

    @property
    def missing(self) -> list[str]:
        """What must be added before the map can be used."""
        missing = [] if self.company or all(map(_has_company, self.tables)) else ["platform_company_id"]
        for table in self.tables:
            required = [table.resource.identifier, *(["Status"] if table.has_status else [])]
            missing += [f"{table.resource.alias}.record.{name}" for name in required if name not in _declared(table)]
        return missing

    @property
    def text(self) -> str:
        """The column map as TOML."""
        return "\n".join([_NOTE, *self._company_lines()]) + f"\n{self.tables_text}"

    @property
    def tables_text(self) -> str:
        """The tables of the column map, without the company."""
        others = (f"# {quoted(name)} has other columns than the files below: draft it alone" for name in self.others)
        tables = chain.from_iterable(_table_lines(one, has_company=self.company is not None) for one in self.tables)
        return "\n".join([*others, *tables]) + "\n"

    def _company_lines(self) -> Iterator[str]:
        key = f"platform_company_id = {quoted(self.company or '...')}"
        if self.company and self.definition:
            if not self.definition.is_certain:
                yield "# Elasticsearch could not be asked for the company. If it is live, put this line in place of the"
                yield f"# next three, which would replace its record: {key}"
            yield "[company]"
            yield key
            yield f"name = {quoted(self.definition.name)}"
        elif self.company:
            yield key
        elif not all(map(_has_company, self.tables)):
            yield f"# {key}  # required: the key of your company; or define it in [company]"


def _declared(table: TableDraft) -> set[str | None]:
    return {guess.field for guess in table.guesses if guess.is_declared} | {name for name, _ in table.derived}


def _has_company(table: TableDraft) -> bool:
    return table.resource is COMPANY or "platform_company_id" in _declared(table)


def draft_map(
    names: Sequence[str],
    folder: Path,
    *,
    company: str | None = None,
    definition: NewCompany | None = None,
    resource: Resource | None = None,
) -> MapDraft:
    """Draft the map of files, archives or folders; `folder` is where the map will be. Raises SourceError."""
    tables: dict[frozenset[str], TableDraft] = {}
    for name in names:
        _require_path(name)
        declared = TableFormat(files=[os.path.relpath(name, folder)])
        given = table_files(declared, folder, "FILE")
        added = [_add(tables, file, resource) for file in given]
        if all(table is added[0] for table in added):
            # The whole folder or pattern, so that files which come to it later are read too.
            own = {os.path.relpath(file.path, file.folder) for file in given}
            added[0].files = [*(one for one in added[0].files if one not in own), *declared.patterns]
    chosen: dict[Resource, TableDraft] = {}
    others: list[str] = []
    unread = [name for pattern in names for name in unread_files(Path(pattern))]
    for table in tables.values():
        if chosen.setdefault(table.resource, table) is not table:
            others += table.files
    return MapDraft(list(chosen.values()), company, others, unread, definition)


def _require_path(name: str) -> None:
    if not Path(name).exists() and not PATTERN_SIGNS & {*name}:
        raise SourceError(f"{name} does not exist: name a CSV file, an archive or a folder with such files.")


def _add(tables: dict[frozenset[str], TableDraft], file: TableFile, resource: Resource | None) -> TableDraft:
    sample = read_sample(file)
    columns, rows, form, key = sample.columns, sample.rows, file.form, frozenset(sample.columns)
    name = os.path.relpath(file.path, file.folder)
    if key not in tables:
        filled = [column for index, column in enumerate(columns) if not rows or any(row[index] for row in rows)]
        found = resource or resource_of(file.name, filled)
        written = {"encoding": quoted(form.encoding), "delimiter": quoted(form.delimiter)}
        repeated = repeated_names(sample)
        tables[key] = TableDraft(found, [name], columns, list(rows), written, repeated, {file.name: sample})
        return tables[key]
    table = tables[key]
    table.samples[file.name] = sample
    table.files += [name] if name not in table.files else []
    for one in sample.rows[:_ROWS_OF_FURTHER_FILES]:
        by_name = dict(zip(columns, one, strict=True))
        table.rows.append([by_name[column] for column in table.columns])
    return table


def _unused_columns(table: TableDraft) -> list[str]:
    used = {guess.column for guess in table.guesses if guess.field}
    derived = "\n".join(text for _, text in table.derived)
    return [column for column in table.values if column not in used and quoted(column) not in derived]


def _table_lines(table: TableDraft, *, has_company: bool) -> Iterator[str]:
    yield f"\n[{table.resource.alias}]"
    yield f"files = [{', '.join(map(quoted, table.files))}]"
    yield from (f"{key} = {value}" for key, value in table.format.items())
    yield from _extent_lines(table)
    yield from _format_lines(table)
    members = {guess.field: guess for guess in table.guesses if guess.field in ENVELOPE and guess.is_declared}
    updated = members.get("updated_at")
    yield f"updated_at = {updated.draft.text if updated else quoted('on change')}"
    if "platform_company_id" in members and not has_company and table.resource is not COMPANY:
        yield f"platform_company_id = {members['platform_company_id'].draft.text}"
    yield f"\n[{table.resource.alias}.record]"
    yield from _record_lines(table)


def _extent_lines(table: TableDraft) -> Iterator[str]:
    """Yield where the records begin and end, and which rows are none."""
    headers = {sample.header.row.number for sample in table.samples.values() if sample.header.titles}
    if headers:
        yield f"# header_at = {min(headers)}  # without it, the header is found by its columns"
    footers, skipped = {sample.footer for sample in table.samples.values()}, _skipped_rows(table)
    if len(footers) == 1 and (footer := footers.pop()):
        yield f"footer = {quoted(footer)}"
    if skipped:
        columns = (f"{quoted(column)} = [{', '.join(patterns)}]" for column, patterns in skipped.items())
        yield f"skip_if = {{{', '.join(columns)}}}"


def _skipped_rows(table: TableDraft) -> dict[str, list[str]]:
    """Return the patterns of rows that are no records, by column; of footers, if not all files have the same."""
    samples = list(table.samples.values())
    found = {pattern: column for sample in samples for pattern, column in sample.remarks.items()}
    if len({sample.footer for sample in samples}) > 1:
        found |= {sample.footer: sample.footer_column for sample in samples if sample.footer and sample.footer_column}
    columns: dict[str, list[str]] = {}
    for pattern, column in found.items():
        columns.setdefault(column, []).append(inline(matches=quoted(pattern)))
    return columns


def _table_notes(table: TableDraft) -> Iterator[str]:
    for name, sample in table.samples.items():
        if titles := sample.header.titles:
            shown = "; ".join(map(row_text, titles))
            yield f"{name}: the header is line {sample.header.row.number}; the rows above it are not read: {shown}"
        if sample.footer:
            yield f"{name}: the last row is no record, as its footer says: {sample.footer}"
    for column, patterns in _skipped_rows(table).items():
        yield f"{', '.join(table.files)}: rows are left out whose {column} is a sentence: {', '.join(patterns)}"
    for name in dict.fromkeys(table.repeated.values()):
        columns = [column for column, repeated in table.repeated.items() if repeated == name]
        yield f"{', '.join(table.files)}: {len(columns)} columns are named {name!r}: choose one of {', '.join(columns)}"
    if count := table.columns.count(""):
        yield f"{', '.join(table.files)}: {counted(count, 'column')} without a heading cannot be read: give them one"


def _format_lines(table: TableDraft) -> Iterator[str]:
    form = table.number_form
    if form and (form.decimal, form.thousands) != (".", ""):
        yield f"decimal = {quoted(form.decimal)}"
        yield f"thousands = {quoted(form.thousands)}"
    if form and form.currency:
        yield f"currency = [{', '.join(map(quoted, form.currency))}]"
    if empty := sorted({text for values in table.values.values() for text in values.empty_texts}):
        yield f"empty = [{', '.join(map(quoted, empty))}]"
    kinds = {_field_named(table.resource, guess.field).kind for guess in table.guesses if guess.field}
    if FieldKind.DATE_TIME in kinds:
        yield '# time_zone = "America/New_York"  # of times without an offset; UTC if absent'


def _record_lines(table: TableDraft) -> Iterator[str]:
    guesses = [guess for guess in table.guesses if guess.field not in {None, *ENVELOPE}]
    for guess in guesses:
        prefix = "" if guess.is_declared else "# "
        reasons = [guess.draft.note, "guessed by values or similar names" if guess.confidence is Confidence.LOW else ""]
        note = "; ".join(filter(None, reasons))
        yield f"{prefix}{guess.field} = {guess.draft.text}{f'  # {note}' if note else ''}"
    for name, text in table.derived:
        yield f"{name} = {text}"
    if unused := _unused_columns(table):
        yield f"# Columns that are not read: {', '.join(map(quoted, unused))}"
