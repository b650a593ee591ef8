"""Made-up exports in random dialects, encodings and forms of numbers and dates, with the records that they mean."""

import csv
import datetime as dt
import io
import random
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson

from tests.indexer.source.packing import PACKERS, zipped

# Encodings, and whether a map may leave them out.
ENCODINGS = {
    "utf-8": True,
    "utf-8-sig": True,
    "utf-16": True,
    "cp1252": True,
    "latin-1": False,
    "mac-roman": False,
    "cp1250": False,
    "utf-16-le": False,
}
DAYS = ["%Y-%m-%d", "%m/%d/%Y", "%d.%m.%Y", "%d-%b-%Y", "%B %d, %Y", "%Y%m%d", "%m-%d-%y"]
CLOCKS = ["%H:%M", "%I:%M %p", "%H:%M:%S"]
ZONES = ["UTC", "America/New_York", "America/Denver", "Europe/Berlin"]
NUMBERS = [(".", ""), (".", ","), (",", "."), (",", " "), (".", "'")]
CURRENCIES = ["", "$", "US$ ", " €", " USD"]
WORDS = [
    "Sunny",
    "den",
    "Café",
    "Zürich",
    "José",
    "Müller",
    '12" beam',
    "it's",
    "a;b",
    "c,d",
    "e|f",
    "g\th",
    "two\nlines",
]
COLUMNS = ["Key", "Price", "Town", "Remarks", "Size", "Listed", "Changed", "Pool"]
BAD_CELLS = {
    "Price": ["call", "1.2.3.4", "--"],
    "Size": ["big", "1,2,3,"],
    "Listed": ["soon", "99/99/9999"],
    "Pool": ["?"],
}


@dataclass
class MessyExport:
    """An export in a folder, the records that it means, and the lines that are bad."""

    folder: Path
    chosen: random.Random
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    bad: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Choose the forms, and write the files and the map."""
        pick = self.chosen.choice
        self.encoding, self.delimiter = pick(list(ENCODINGS)), pick(",;\t|")
        # Where a cell may contain it, the euro sign must exist in the encoding.
        self.currency = pick([one for one in CURRENCIES if "€" not in one or self.encoding != "latin-1"])
        (self.decimal, self.thousands), self.zone = pick(NUMBERS), pick(ZONES)
        self.day, self.clock, self.end = pick(DAYS), pick(CLOCKS), pick(["\n", "\r\n"])
        self.has_blank, self.pack = pick([True, False]), pick(["", ".gz", ".zst", ".zip"])
        for number in range(self.chosen.randint(1, 4)):
            self._write_file(number, self.chosen.randint(1, 40))
        (self.folder / "map.toml").write_text(self._map(), encoding="utf-8")

    def _write_file(self, number: int, rows: int) -> None:
        columns = self.chosen.sample(COLUMNS, len(COLUMNS)) + [""] * self.has_blank
        text = io.StringIO(newline="")
        dialect = "unix" if self.chosen.random() < 0.5 else "excel"  # all cells in quotation marks, or few
        writer = csv.writer(text, dialect, delimiter=self.delimiter, lineterminator=self.end)
        writer.writerow(columns)
        name = f"part-{number}.csv{self.pack}"
        for row in range(rows):
            line = text.getvalue().count("\n") + 1
            self._write_row(
                writer,
                columns,
                f"{self.folder.name}-{number}-{row}",
                (f"{name}/part.csv" if self.pack == ".zip" else name, line),
            )
        packed = (PACKERS | {".zip": partial(zipped, name="part.csv")})[self.pack](
            text.getvalue().encode(self.encoding)
        )
        (self.folder / name).write_bytes(packed)

    def _write_row(self, writer: Any, columns: list[str], key: str, place: tuple[str, int]) -> None:
        cells, record = self._cells(key)
        if self.chosen.random() < 0.1:
            self.bad.add(place)
            column = self.chosen.choice(["", *BAD_CELLS])
            if column:
                cells[column] = self.chosen.choice(BAD_CELLS[column])
            else:
                columns = columns[:-2]
        else:
            self.records[key] = record
        writer.writerow([cells.get(column, "") for column in columns])

    def _cells(self, key: str) -> tuple[dict[str, str], dict[str, Any]]:
        price, size = self.chosen.randint(1, 99_999_999), self.chosen.randint(1, 99_999)
        day = dt.date(2000, 1, 1) + dt.timedelta(days=self.chosen.randint(0, 9_000))
        days, hours = self.chosen.randint(0, 60), self.chosen.randint(0, 11)
        changed = dt.datetime(2020, 6, 15, 12, 0, tzinfo=ZoneInfo(self.zone)) + dt.timedelta(days=days, hours=hours)
        towns = ["Rye", "São Paulo", "Łódź"] if self.encoding in {"utf-8", "utf-16"} else ["Rye", "Bedford"]
        town, pool = self.chosen.choice(towns), self.chosen.choice([True, False])
        remarks = " ".join(self.chosen.sample(WORDS, 6))
        cells = {
            "Key": key,
            "Price": self._priced(price),
            "Town": town,
            "Remarks": remarks,
            "Size": self._number(size) + self.chosen.choice(["", f"{self.decimal}0"]),
            "Listed": day.strftime(self.day),
            "Changed": f"{changed.strftime(self.day)} {changed.strftime(self.clock)}",
            "Pool": self.chosen.choice(["yes", "Y", "TRUE", "1"] if pool else ["no", "N", "False", "0"]),
        }
        values = {"ListPrice": price, "City": town, "PublicRemarks": remarks, "LivingArea": size, "PoolYN": pool}
        return cells, {**values, "CreatedDate": day.isoformat(), "ModificationTimestamp": changed.isoformat()}

    def _number(self, number: int) -> str:
        return f"{number:,}".replace(",", self.thousands)

    def _priced(self, price: int) -> str:
        number = self._number(price)
        return f"{number}{self.currency}" if self.currency.startswith(" ") else f"{self.currency}{number}"

    def _map(self) -> str:
        keys = {"decimal": self.decimal, "thousands": self.thousands, "currency": self.currency.strip()}
        keys |= {"time_zone": self.zone, "date_format": self.day, "date_time_format": f"{self.day} {self.clock}"}
        if not ENCODINGS[self.encoding] or self.chosen.random() < 0.5:
            keys["encoding"] = self.encoding
        if self.chosen.random() < 0.5:
            keys["delimiter"] = self.delimiter
        lines = [f"{key} = {_quoted(value)}" for key, value in keys.items()]
        return _MAP.format(keys="\n".join(lines))


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


_MAP = """
resource = "listings"
files = ["part-*"]
updated_at = {{column = "Changed"}}
{keys}
[company]
platform_company_id = "messy"
name = "Messy"
[record]
PlatformListingId = {{column = "Key"}}
ListPrice = {{column = "Price"}}
Status = "Active"
City = {{column = "Town"}}
PublicRemarks = {{column = "Remarks"}}
LivingArea = {{column = "Size"}}
CreatedDate = {{column = "Listed"}}
ModificationTimestamp = {{column = "Changed"}}
PoolYN = {{column = "Pool"}}
"""
