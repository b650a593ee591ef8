"""The declaration of one field: what its column map says, if the values of the column fit the field."""

from typing import NamedTuple

import orjson

from indexer.drafting.column_names import IMAGES, folded
from indexer.drafting.column_values import ColumnValues, NumberForm
from mappings import AGENT, TEAM, Resource
from mappings.fields import Field, FieldKind, date_time, string
from mappings.legends import STATUSES

_MAX_MAPPED = 30
_UUID_FIELDS = {"ListAgentUUID": "agent", "SecondaryListAgentUUID": "agent", "BuyerAgentUUID": "agent"}
_LIST_SIGNS = ("|", ";", ",", " ")
# Texts of exports that mean a status, folded; a status's own name is added.
_STATUS_TEXTS = {
    "a": "Active", "act": "Active", "forsale": "Active", "new": "Active", "activeundercontract": "Contingent",
    "contingent": "Contingent", "p": "Pending", "pnd": "Pending", "undercontract": "Pending", "u": "Pending",
    "closed": "Sold", "s": "Sold", "sld": "Sold", "c": "Sold", "x": "Expired", "exp": "Expired", "w": "Withdrawn",
    "wth": "Withdrawn", "cancelled": "Canceled", "can": "Canceled", "hold": "TempOffMarket", "cs": "ComingSoon",
}  # fmt: skip
_STATUSES = {folded(status): status for status in STATUSES}
_STATUS_TEXTS |= _STATUSES


class ValueDraft(NamedTuple):
    """A declaration in TOML, whether the values fit it, and what to look at."""

    text: str
    fits: bool = True
    note: str = ""


def quoted(text: str) -> str:
    """Return a text as a TOML string."""
    return orjson.dumps(text).decode()


def inline(**members: str) -> str:
    """Return an inline table of members that are TOML already; empty ones are left out."""
    return "{" + ", ".join(f"{name} = {value}" for name, value in members.items() if value) + "}"


def field_named(resource: Resource, name: str) -> Field:
    """Return a field of the record or of the envelope."""
    envelope = {"updated_at": date_time("updated_at"), "platform_company_id": string("platform_company_id")}
    return envelope.get(name) or next(field for field in resource.stored if field.name == name)


def value_draft(
    resource: Resource, name: str, column: str, values: ColumnValues, usual: NumberForm | None
) -> ValueDraft:
    """Return the declaration of a field from a column; `usual` are the signs of numbers that the table declares."""
    at = quoted(column)
    if prefix := _uuid_prefix(resource, name):
        by_name = ValueDraft(inline(uuid5=quoted(f"{prefix} {{{column}}}")), note="a UUID made from the value")
        return ValueDraft(inline(column=at)) if values.are_uuids else by_name
    if name == resource.identifier:
        return _identifier(at, values)
    if name == IMAGES:
        return _images(at, values)
    if name == "Status":
        return _status(at, values)
    return _by_kind(field_named(resource, name).kind, at, values, usual)


def _uuid_prefix(resource: Resource, name: str) -> str | None:
    if name == resource.identifier and resource in {AGENT, TEAM}:
        return resource.name.lower()
    return _UUID_FIELDS.get(name)


def _identifier(at: str, values: ColumnValues) -> ValueDraft:
    forbidden = [sign for sign in " /" if any(sign in value for value in values.different)]
    parts = ", ".join(f'{quoted(sign)} = "-"' for sign in forbidden)
    note = "" if values.are_unique else "some values are repeated: rows with the same one are one record"
    return ValueDraft(inline(column=at, replace=f"{{{parts}}}" if parts else ""), note=note)


def _images(at: str, values: ColumnValues) -> ValueDraft:
    sign = next((one for one in _LIST_SIGNS if any(one in value for value in values.different)), "")
    return ValueDraft(f"[{{FullURL = {inline(column=at, split=quoted(sign) if sign else '')}}}]")


def _status(at: str, values: ColumnValues) -> ValueDraft:
    if all(folded(value) in _STATUSES for value in values.different):
        return ValueDraft(inline(column=at))
    known = {value: _STATUS_TEXTS.get(folded(value)) for value in list(values.different)[:_MAX_MAPPED]}
    pairs = ", ".join(f"{quoted(value)} = {quoted(status)}" for value, status in known.items() if status)
    unknown = [value for value, status in known.items() if not status]
    note = f"add to the map: {', '.join(unknown)}" if unknown else ""
    return ValueDraft(inline(column=at, map=f"{{{pairs}}}"), fits=not unknown, note=note)


def _by_kind(kind: FieldKind, at: str, values: ColumnValues, usual: NumberForm | None) -> ValueDraft:
    if not values.values:
        return ValueDraft(inline(column=at), note="no values")
    if kind in {FieldKind.INTEGER, FieldKind.NUMBER}:
        return _number(at, values, usual)
    if kind in {FieldKind.DATE, FieldKind.DATE_TIME, FieldKind.UNIX}:
        return _dated(kind, at, values)
    if kind is FieldKind.BOOLEAN and not values.are_booleans:
        pairs = ", ".join(f"{quoted(value)} = false" for value in list(values.different)[:_MAX_MAPPED])
        return ValueDraft(inline(column=at, map=f"{{{pairs}}}"), fits=False, note="set what each text means")
    if kind is FieldKind.UNTYPED and values.number_form:
        return _number(at, values, usual, type=quoted("number"))
    return ValueDraft(inline(column=at))


def _number(at: str, values: ColumnValues, usual: NumberForm | None, **others: str) -> ValueDraft:
    form = values.number_form
    if form is None:
        return ValueDraft(inline(column=at, **others), fits=False, note="not all values are numbers")
    if usual and not values.are_numbers(usual):
        others |= {"decimal": quoted(form.decimal), "thousands": quoted(form.thousands)}
    return ValueDraft(inline(column=at, **others))


def _dated(kind: FieldKind, at: str, values: ColumnValues) -> ValueDraft:
    if kind is FieldKind.UNIX and values.number_form:
        return ValueDraft(inline(column=at))
    form = values.date_form
    if form is None:
        return ValueDraft(inline(column=at, format='"%Y"'), fits=False, note="set the format of the dates")
    note = "day and month could be exchanged: check the format" if form.is_ambiguous else ""
    is_iso_number = kind is FieldKind.UNIX and form.format is None
    return ValueDraft(
        inline(column=at, format=quoted(form.format or "%Y-%m-%d") if form.format or is_iso_number else ""), note=note
    )
