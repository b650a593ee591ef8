"""Tables as people have them: true listings, written with the faults of spreadsheets, data frames and reports.

Each fault changes how some cells or lines are written, and says what may be served of them. A table has several.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

# What must be true of a row: its field has this value, or its line or column is named in what the command prints.
Values = dict[str, object]

_STREETS = ("Quay Rd", "Mill St", "Harbor Ln", "Orchard Ave")
_CITIES = {"Gloucester": "01930", "Boston": "02116", "Salem": "01970", "Hull": "02045"}
_STATUSES = ("Active", "Pending", "Sold", "Expired", "Withdrawn")

_PLAIN = {
    "id": "MLS#",
    "status": "Status",
    "price": "List Price",
    "address": "Address",
    "city": "City",
    "state": "State",
    "zip": "Zip",
    "beds": "Beds",
    "baths": "Baths",
    "sqft": "SqFt",
    "year": "Year Built",
    "acres": "Acres",
    "listed": "List Date",
    "modified": "Last Modified",
    "latitude": "Latitude",
    "longitude": "Longitude",
    "remarks": "Remarks",
}
_ABBREVIATED = _PLAIN | {
    "id": "Listing No",
    "status": "Stat",
    "price": "Price",
    "address": "Addr",
    "city": "City/Town",
    "year": "Yr Built",
    "modified": "Last Chg",
}
_FRAME = _PLAIN | {
    "id": "listing_id",
    "price": "price",
    "year": "year_built",
    "listed": "list_date",
    "modified": "modified",
}
# The field of a listing that each column fills. Two have no value to compare: the time and the identifier.
FIELDS = {
    "status": "Status",
    "price": "ListPrice",
    "address": "Address",
    "city": "City",
    "state": "StateOrProvince",
    "zip": "PostalCode",
    "beds": "BedroomsTotal",
    "sqft": "LivingArea",
    "year": "YearBuilt",
    "acres": "LotSizeAcres",
    "listed": "ListingContractDate",
    "latitude": "Latitude",
    "longitude": "Longitude",
    "remarks": "PublicRemarks",
}


@dataclass
class MessyRow:
    """A listing: the texts of its cells by column, and what may be served of it.

    `is_lost` says that the writer lost the identifier: no record may come of the row, and its line must be named.
    `doubtful` are fields whose cell no reader can understand: null or the value, and the column must be named.
    """

    identifier: str
    cells: dict[str, str]
    values: Values
    is_lost: bool = False
    doubtful: set[str] = field(default_factory=set)
    line: int = 0


@dataclass
class MessyTable:
    """A table to be written: rows in between lines that are none."""

    rows: list[MessyRow]
    headers: dict[str, str]
    before: list[list[str]] = field(default_factory=list)  # above the header
    notes: list[list[str]] = field(default_factory=list)  # below the header
    after: list[list[str]] = field(default_factory=list)
    delimiter: str = ","
    encoding: str = "utf-8"
    newline: str = "\n"
    repeated: str | None = None  # a column that is there twice
    faults: list[str] = field(default_factory=list)

    def write(self) -> bytes:
        """Return the file, and note the line of each row."""
        lines = [*self.before, [*self.headers.values(), *([self.headers[self.repeated]] if self.repeated else [])]]
        lines += self.notes
        texts = [self._line(cells) for cells in lines]
        for row in self.rows:
            row.line = sum(text.count("\n") + 1 for text in texts) + 1
            again = [row.cells[self.repeated]] if self.repeated else []
            texts.append(self._line([*(row.cells[name] for name in self.headers), *again]))
        texts += [self._line(cells) for cells in self.after]
        return "".join(text + self.newline for text in texts).encode(self.encoding)

    def _line(self, cells: list[str]) -> str:
        return self.delimiter.join(self._quoted(cell) for cell in cells)

    def _quoted(self, cell: str) -> str:
        needs_quotes = any(sign in cell for sign in (self.delimiter, '"', "\n"))
        return '"' + cell.replace('"', '""') + '"' if needs_quotes else cell


Fault = Callable[[MessyTable, Random], None]


def _new_table(random: Random, count: int) -> MessyTable:
    first = random.randrange(73_200_000, 73_900_000)
    return MessyTable([_row(random, str(first + number)) for number in range(count)], dict(_PLAIN))


def _row(random: Random, identifier: str) -> MessyRow:
    city = random.choice(list(_CITIES))
    price, beds, baths = random.randrange(200, 3_000) * 1_000, random.randint(1, 6), random.choice((1, 1.5, 2, 2.5, 3))
    month, day = random.randint(1, 10), random.randint(1, 28)
    values: Values = {
        "Status": random.choice(_STATUSES),
        "ListPrice": price,
        "Address": f"{random.randint(1, 200)} {random.choice(_STREETS)}",
        "City": city,
        "StateOrProvince": "MA",
        "PostalCode": _CITIES[city],
        "BedroomsTotal": beds,
        "LivingArea": random.randrange(600, 4_000),
        "YearBuilt": random.randint(1880, 2020),
        "LotSizeAcres": random.randint(1, 9),
        "ListingContractDate": f"2026-{month:02}-{day:02}",
        "Latitude": f"42.{random.randrange(100_000, 999_999)}",
        "Longitude": f"-71.{random.randrange(100_000, 999_999)}",
        "PublicRemarks": random.choice(("Sunny corner unit", "Plain", "Views, and more views")),
    }
    cells = {column: str(values[name]) for column, name in FIELDS.items()}
    cells |= {"id": identifier, "baths": f"{baths:g}", "price": f"${price:,}", "listed": f"{month}/{day}/2026"}
    cells["modified"] = f"{random.randint(1, 10):02}/{random.randint(1, 28):02}/2026 {random.randint(8, 11):02}:15 AM"
    return MessyRow(identifier, cells, values)


def _titles(table: MessyTable, random: Random) -> None:
    width = len(table.headers)
    lines = [["Listing report for Harbor Lane"], ["Generated 11/03/2026"], [""]][random.randint(0, 1) :]
    table.before = [line + [""] * (width - 1) if random.random() < 0.5 else line for line in lines]


def _legal_note(table: MessyTable, _: Random) -> None:
    note = "In accordance with local MLS rules, some MLS listings are not included in the download"
    table.notes = [[note, *[""] * (len(table.headers) - 1)]]


def _footer(table: MessyTable, _: Random) -> None:
    table.after = [[f"Total: {len(table.rows)} listings"]]


def _totals(table: MessyTable, _: Random) -> None:
    width = len(table.headers)
    table.after = [[""] * width, ["Totals:", str(len(table.rows)), *[""] * (width - 2)]]


def _float_identifiers(table: MessyTable, _: Random) -> None:
    _write_each(table, "id", lambda text: f"{text}.0")


def _floats(table: MessyTable, random: Random) -> None:
    """A data frame writes whole numbers that it had to make floating-point ones."""
    table.headers = dict(_FRAME)
    _float_identifiers(table, random)
    for column in ("beds", "sqft", "year", "acres"):
        _write_each(table, column, lambda text: f"{text}.0")
    for row in table.rows:
        row.cells["price"] = f"{row.values['ListPrice']}.0"
        row.cells["zip"] = f"{int(str(row.values['PostalCode']))}.0"
        month, day, year = row.cells["listed"].split("/")
        row.cells["listed"] = f"{year}-{int(month):02}-{int(day):02}"


def _exponent_prices(table: MessyTable, random: Random) -> None:
    for row in random.sample(table.rows, 3):
        row.cells["price"] = f"{float(str(row.values['ListPrice'])):.6e}"


def _exponent_identifiers(table: MessyTable, random: Random) -> None:
    """A spreadsheet shows long numbers with three digits, and saves what it shows."""
    for row in random.sample(table.rows, 2):
        row.cells["id"], row.is_lost = f"{float(row.identifier):.2E}", True


def _lost_zeros(table: MessyTable, random: Random) -> None:
    for row in random.sample(table.rows, len(table.rows) // 2):
        row.cells["zip"] = row.cells["zip"].lstrip("0")


def _text_formulas(table: MessyTable, _: Random) -> None:
    for row in table.rows:
        row.identifier = f"00{row.identifier}"
        row.cells["id"] = f'="{row.identifier}"'


def _price_suffixes(table: MessyTable, random: Random) -> None:
    for row in random.sample(table.rows, len(table.rows) // 2):
        thousands = int(str(row.values["ListPrice"])) // 1_000
        row.cells["price"] = f"${thousands}K" if thousands < 1_000 else f"${thousands / 1_000:g}M"


def _full_and_half_baths(table: MessyTable, random: Random) -> None:
    for row in table.rows:
        full, half = random.randint(1, 4), random.randint(0, 2)
        row.cells["baths"] = f"{full}/{half}" if half else str(full)
        row.values |= {"BathroomsFull": full, "BathroomsHalf": half}


def _years_in_words(table: MessyTable, random: Random) -> None:
    for row in random.sample(table.rows, 2):
        row.cells["year"] = random.choice((f"c.{row.values['YearBuilt']}", "unknown", "TBD"))
        row.doubtful.add("YearBuilt")


def _acres_with_units(table: MessyTable, _: Random) -> None:
    _write_each(table, "acres", lambda text: f"{text} ac")


def _two_forms_of_dates(table: MessyTable, random: Random) -> None:
    for row in random.sample(table.rows, len(table.rows) // 2):
        row.cells["listed"] = str(row.values["ListingContractDate"])


def _empty_words(table: MessyTable, random: Random) -> None:
    for row, column in zip(random.sample(table.rows, 4), ("year", "sqft", "beds", "acres"), strict=True):
        row.cells[column] = random.choice(("N/A", "nan", "#N/A", "-"))
        row.values[FIELDS[column]] = None


def _placeholders(table: MessyTable, random: Random) -> None:
    for row, column in zip(random.sample(table.rows, 3), ("price", "year", "sqft"), strict=True):
        row.cells[column] = "0"
        row.values[FIELDS[column]] = None
    row = random.choice(table.rows)
    row.cells |= {"latitude": "0", "longitude": "0"}
    row.values |= {"Latitude": None, "Longitude": None}


def _missing_hour(table: MessyTable, random: Random) -> None:
    random.choice(table.rows).cells["modified"] = "03/08/2026 02:30 AM"


def _statuses_as_letters(table: MessyTable, _: Random) -> None:
    letters = {"Active": "A", "Pending": "P", "Sold": "S", "Expired": "X", "Withdrawn": "W"}
    _write_each(table, "status", letters.__getitem__)


def _other_statuses(table: MessyTable, random: Random) -> None:
    for row in random.sample(table.rows, 2):
        row.cells["status"], row.values["Status"] = "Under Agreement", "Pending"


def _quoted_line_breaks(table: MessyTable, random: Random) -> None:
    for row in random.sample(table.rows, 3):
        row.cells["remarks"] = row.values["PublicRemarks"] = 'Sunny "corner" unit\nwith a second line'


def _cents(table: MessyTable, random: Random) -> None:
    for row in random.sample(table.rows, 3):
        row.cells["price"] = f"${row.values['ListPrice']:,}.25"


def _repeated_column(table: MessyTable, _: Random) -> None:
    table.repeated = "remarks"
    for row in table.rows:
        row.doubtful.add("PublicRemarks")


def _semicolons(table: MessyTable, _: Random) -> None:
    table.delimiter = ";"


def _tabs(table: MessyTable, _: Random) -> None:
    table.delimiter = "\t"


def _decimal_commas(table: MessyTable, _: Random) -> None:
    table.delimiter = ";"
    for row in table.rows:
        row.cells["price"] = f"{row.values['ListPrice']:,}".replace(",", ".") + ",00"
        row.cells["baths"] = row.cells["baths"].replace(".", ",")


def _windows(table: MessyTable, random: Random) -> None:
    table.encoding, table.newline = "windows-1252", "\r\n"
    for row in random.sample(table.rows, 3):
        row.cells["city"] = row.values["City"] = "Cañon Cité"


def _utf_16(table: MessyTable, _: Random) -> None:
    table.encoding, table.delimiter = "utf-16", "\t"


def _byte_order_mark(table: MessyTable, _: Random) -> None:
    table.encoding, table.newline = "utf-8-sig", "\r\n"


def _short_headers(table: MessyTable, _: Random) -> None:
    table.headers = dict(_ABBREVIATED)


def _blank_lines(table: MessyTable, _: Random) -> None:
    table.after += [[""] * len(table.headers), [""]]


def _write_each(table: MessyTable, column: str, written: Callable[[str], str]) -> None:
    for row in table.rows:
        row.cells[column] = written(row.cells[column])


# Faults of one group change the same cells or lines: a table has one of them at most.
_GROUPS: tuple[tuple[Fault, ...], ...] = (
    (_titles,),
    (_legal_note,),
    (_footer, _totals, _blank_lines),
    (_float_identifiers, _text_formulas, _exponent_identifiers),
    (_exponent_prices, _price_suffixes, _cents, _decimal_commas),
    (_lost_zeros,),
    (_full_and_half_baths,),
    (_years_in_words, _empty_words, _placeholders),
    (_acres_with_units,),
    (_two_forms_of_dates,),
    (_missing_hour,),
    (_statuses_as_letters, _other_statuses),
    (_quoted_line_breaks,),
    (_repeated_column,),
    (_semicolons, _tabs, _utf_16),
    (_windows, _byte_order_mark),
    (_short_headers,),
)
_FAULTS = {fault: number for number, group in enumerate(_GROUPS) for fault in group}
# Of a table that a program wrote, which has whole columns of one form.
_OF_FRAMES = (_titles, _legal_note, _footer, _years_in_words, _statuses_as_letters, _semicolons, _byte_order_mark)
_EXCLUDED: dict[Fault, set[Fault]] = {
    _utf_16: {_windows, _byte_order_mark},
    _decimal_commas: {_semicolons, _tabs, _utf_16},
}


def messy_table(seed: int, *, rows: int = 24) -> MessyTable:
    """Return a table of random listings with three to six faults; one in eight is written by a data frame."""
    random = Random(seed)  # noqa: S311 - made-up values
    table = _new_table(random, rows)
    chosen: dict[int, Fault] = {}
    if seed % 8 == 0:
        _floats(table, random)
        table.faults.append("floats")
    for fault in random.sample(_OF_FRAMES if table.faults else list(_FAULTS), 6):
        if len(chosen) < 6 - seed % 4 and not any(fault in _EXCLUDED.get(one, ()) for one in chosen.values()):
            chosen.setdefault(_FAULTS[fault], fault)
    excluded: set[Fault] = {other for fault in chosen.values() for other in _EXCLUDED.get(fault, ())}
    for _, fault in sorted(chosen.items(), key=lambda pair: pair[0]):
        if fault not in excluded:
            fault(table, random)
            table.faults.append(fault.__name__.strip("_"))
    return table
