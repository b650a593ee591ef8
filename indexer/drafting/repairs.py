"""What repairs the damaged cells of a column: members of its declaration, why, and the values as they then are."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import orjson

from cluster.terminal import counted
from indexer.drafting.columns import ENVELOPE, ColumnValues
from indexer.source.tables.cells import parsed_time
from indexer.source.tables.lossy_cells import (
    FRACTION,
    NUMBERS_AS_TEXT,
    SCIENTIFIC,
    ZIP_DIGITS,
    common_width,
    has_lost_digits,
    is_fraction,
    is_zip_code,
    padded,
    placeholder_test,
    sign_of,
    whole,
)
from indexer.source.tables.numbers import number_converter
from mappings.fields import FieldKind

_NUMBERS = frozenset({FieldKind.INTEGER, FieldKind.NUMBER, FieldKind.UNTYPED})
_DATES = frozenset({FieldKind.DATE, FieldKind.DATE_TIME})
_WITH_UNIT = re.compile(r"(.*[0-9]\.?) ?([A-Za-z][A-Za-z. ]*[²2]?)").fullmatch
_BATHS = re.compile(r"[0-9]+(?: ?/ ?[0-9]*)?").fullmatch
_MONEY = {"k": 1_000, "m": 1_000_000}
_FEET = dict.fromkeys(("sf", "sqft", "sq ft", "ft2", "ft²", "square feet"), 1)
# Units that the values of a field may have, in lower case and without full stops, and what each multiplies them by.
_UNITS = {
    **dict.fromkeys(("ListPrice", "SoldPrice", "TaxAnnualAmount"), _MONEY),
    **dict.fromkeys(("LivingArea", "LotSizeSquareFeet"), _FEET),
    "LotSizeAcres": dict.fromkeys(("ac", "acre", "acres"), 1),
    "DaysOnMarket": dict.fromkeys(("d", "day", "days"), 1),
    "BedroomsTotal": dict.fromkeys(("bd", "br", "bed", "beds"), 1),
    "BathroomsTotal": dict.fromkeys(("ba", "bath", "baths"), 1),
}
_MAX_TEXTS = 30


class Repair(NamedTuple):
    """Members of a column's declaration as TOML, why they are there, and the repaired values."""

    members: dict[str, str]
    notes: list[str]
    values: ColumnValues

    def then(self, members: dict[str, str], note: str, values: ColumnValues | None = None) -> "Repair":
        return Repair({**self.members, **members}, [*self.notes, note], values or self.values)


def repair_of(name: str, kind: FieldKind, values: ColumnValues, *, is_american: bool) -> Repair:
    """Return what repairs the values of a field; `is_american` is whether the rows have states of the USA."""
    repair = Repair({}, [], values)
    for step in _steps(name, kind, is_american=is_american):
        repair = step(repair)
    return repair


Step = Callable[[Repair], Repair]


def _steps(name: str, kind: FieldKind, *, is_american: bool) -> Iterator[Step]:
    if kind in _NUMBERS:
        yield lambda repair: _without_units(name, repair)
        if name == "BathroomsTotal":
            yield _full_and_half
        if kind is not FieldKind.UNTYPED:
            yield lambda repair: _without_misfits("number_form", repair)
    elif kind in _DATES:
        yield lambda repair: _without_dates(name, kind, repair)
        if name not in ENVELOPE:
            yield lambda repair: _without_misfits("date_form", repair)
    elif name not in NUMBERS_AS_TEXT:
        yield _whole
        yield lambda repair: _padded(name, repair, is_american=is_american)
    if kind not in _DATES:
        yield lambda repair: _without_placeholders(name, kind, repair)


def _without_units(name: str, repair: Repair) -> Repair:
    known = _UNITS.get(name, {})
    found = {value: match for value in repair.values.different if (match := _WITH_UNIT(value))}
    units = {match[2]: known.get(match[2].casefold().replace(".", "").strip()) for match in found.values()}
    if not units or None in units.values():
        return repair
    plain = ColumnValues([found[value][1] if value in found else value for value in repair.values.values])
    pairs = ", ".join(f"{quoted(unit)} = {times}" for unit, times in units.items())
    return repair.then({"units": f"{{{pairs}}}"}, f"numbers with {', '.join(units)}", plain)


def _full_and_half(repair: Repair) -> Repair:
    values = repair.values.different
    if not any("/" in value for value in values) or not all(map(_BATHS, values)):
        return repair
    full = ColumnValues([value.partition("/")[0] for value in repair.values.values])
    return repair.then({"split": '"/"', "weights": "[1, 0.5]"}, "full and half baths: a half one counts 0.5", full)


def _without_misfits(form: str, repair: Repair) -> Repair:
    """Let few cells that are no numbers or dates become empty."""
    if getattr(repair.values, form) is not None or (rest := repair.values.without_misfits(form)) is None:
        return repair
    misfits = repair.values.different.keys() - rest.different.keys()
    count = sum(repair.values.different[value] for value in misfits)
    note = f"{counted(count, 'cell')} such as {min(misfits)!r} cannot be read: such cells become empty"
    return repair.then({"on_error": quoted("empty")}, note, rest)


def _without_dates(name: str, kind: FieldKind, repair: Repair) -> Repair:
    zeros = {value for value in repair.values.different if not value.strip("0-/.: T")}
    dates = ColumnValues([value for value in repair.values.values if value not in zeros])
    is_placeholder = placeholder_test(name, kind)
    if is_placeholder and (form := dates.date_form):
        for value in dates.different:
            with suppress(ValueError):
                if is_placeholder(parsed_time(value, form.formats).date().isoformat()):
                    zeros.add(value)
    if not zeros:
        return repair
    texts = sorted(zeros)[:_MAX_TEXTS]
    kept = ColumnValues([value for value in repair.values.values if value not in zeros])
    return repair.then({"empty_if": f"[{', '.join(map(quoted, texts))}]"}, f"no dates: {', '.join(texts)}", kept)


def _whole(repair: Repair) -> Repair:
    signs = Counter({value: count for value, count in repair.values.different.items() if _is_number_form(value)})
    if not signs:
        return repair
    lost = sum(count for value, count in signs.items() if has_lost_digits(value))
    others = sum(signs.values()) - lost
    notes = []
    if others:
        notes.append(
            f"{counted(others, 'value')} of {len(repair.values.values):,} with a decimal point, "
            "as data frames write them"
        )
    if lost:
        notes.append(
            f"{counted(lost, 'value')} in scientific notation, which has lost digits: export the column as text; "
            "until then these rows are refused"
        )
    if any(map(is_fraction, repair.values.different)):
        return repair.then({}, f"{'; '.join(notes)}; others are not whole numbers")
    return repair.then({"whole": "true"}, "; ".join(notes), ColumnValues([*map(_digits, repair.values.values)]))


def _digits(value: str) -> str:
    try:
        return whole(value)
    except ValueError:
        return value


def _is_number_form(value: str) -> bool:
    return sign_of(value) in {FRACTION, SCIENTIFIC}


def _padded(name: str, repair: Repair, *, is_american: bool) -> Repair:
    widths = Counter(len(value) for value in repair.values.values if value.isdigit())
    is_zip = is_zip_code(name)
    width = common_width(widths, zip_codes=is_zip)
    if is_zip and is_american and widths and max(widths) < ZIP_DIGITS:
        width = ZIP_DIGITS
    if width is None:
        return repair
    short = sum(count for digits, count in widths.items() if digits < width)
    found = f"{counted(short, 'value')} with fewer than {width} digits"
    if not is_zip:
        return repair.then({}, f"{found}: if zeros in front are lost, set pad = {width}")
    pad = padded(width)
    return repair.then(
        {"pad": str(width)}, f"{found}: zeros in front are lost", ColumnValues(list(map(pad, repair.values.values)))
    )


def _without_placeholders(name: str, kind: FieldKind, repair: Repair) -> Repair:
    is_placeholder, form = placeholder_test(name, kind), repair.values.number_form
    if is_placeholder is None or form is None:
        return repair
    number = number_converter(form.decimal, form.thousands, form.currency)
    convert: Callable[[str], object] = str if name in NUMBERS_AS_TEXT else number
    found = sorted({number(value) for value in repair.values.different if is_placeholder(convert(value))})
    if 0 in found:
        repair = repair.then({"empty_if": "[0]"}, "0 means no value")
    if large := [f"{value:g}" if value != int(value) else str(int(value)) for value in found if value]:
        repair = repair.then({}, f"{', '.join(large)}: if it means no value, add it to empty_if")
    return repair


def quoted(text: str) -> str:
    """Return a text as a TOML string."""
    return orjson.dumps(text).decode()
