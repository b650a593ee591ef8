"""The report of a run: counts and faults per resource, updated while it runs, and what share of faults is tolerated.

Faults are grouped by kind: the same field, and the same reason apart from values. Memory is bounded. The dead-letter
file has every rejected line, with its file and line number, the field at fault and the reason.
"""

import dataclasses
import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple, Self

import msgspec
import orjson

from cluster.private_files import create_file, make_folder, open_private
from indexer.errors import InvalidRecordError, report_folder_errors
from indexer.settings import TroublePolicy
from indexer.source.lines import RejectedLine, RowNotes, SourceLine

_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
# What differs between faults of one kind: quoted values, numbers, and positions in a list.
_VALUE = re.compile(rf"{_QUOTED.pattern}|[0-9][0-9.,:T+Z-]*")
_COLUMN = re.compile(r"column (.+?): ")
# A source whose faults are all different must not fill the memory.
_MAX_KINDS = 1_000
_MAX_EXAMPLES = 5
_MAX_EMPTIED_EXAMPLES = 3
_MAX_VALUE_CHARACTERS = 80
_MAX_CHARACTERS = 300
_OTHER_KINDS = "other kinds of faults"


@dataclass(frozen=True)
class FaultExample:
    file: str
    line: int
    value: str | None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f": {self.value}" if self.value is not None else "")


@dataclass
class FaultKind:
    """A kind of fault: the field, the column if the source has columns, the reason without values, how often it occurs.

    `example` is the first occurrence as a sentence: file, line, field and reason.
    """

    field: str
    column: str | None
    reason: str
    example: str
    count: int = 0
    examples: list[FaultExample] = dataclasses.field(default_factory=list)

    def add(self, file: str, line: int, reason: str) -> None:
        """Count a fault; a reason that differs from that of the others replaces theirs, without any values."""
        plain, value = _without_value(reason)
        if plain != self.reason:
            self.reason = _VALUE.sub("…", reason)
        self.count += 1
        if len(self.examples) < _MAX_EXAMPLES:
            self.examples.append(FaultExample(file, line, value))


class FaultTally:
    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], FaultKind] = {}

    def add_line(self, item: RejectedLine) -> None:
        for fault in item.error.all:
            self.add(item.line.file, item.number, fault.field, fault.reason)

    def add(self, file: str, line: int, path: str, reason: str) -> None:
        """Count a fault of a line; `path` is its field, empty if it has none."""
        key = (_VALUE.sub("…", path), _VALUE.sub("…", reason))
        if key not in self._kinds and len(self._kinds) >= _MAX_KINDS:
            key, path, reason = ("", _OTHER_KINDS), "", _OTHER_KINDS
        found = _COLUMN.match(reason)
        column, rest = (found[1], reason[found.end() :]) if found else (None, reason)
        if key not in self._kinds:
            sentence = ": ".join(filter(None, (f"{file}:{line}", path, reason)))
            self._kinds[key] = FaultKind(path, column, _without_value(rest)[0], _shortened(sentence))
        self._kinds[key].add(file, line, rest)

    def kinds(self, most: int | None = None) -> list[FaultKind]:
        """Return the kinds, or the most frequent of them, the most frequent first."""
        return sorted(self._kinds.values(), key=lambda kind: -kind.count)[:most]


def _without_value(reason: str) -> tuple[str, str | None]:
    """Return a reason with its first quoted value left out, and that value."""
    match = _QUOTED.search(reason)
    if match is None:
        return reason, None
    value = match[1] if match[1] is not None else match[2]
    return f"{reason[: match.start()]}…{reason[match.end() :]}", value[:_MAX_VALUE_CHARACTERS]


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"


def fault_lines(kinds: Iterable[FaultKind]) -> Iterator[str]:
    """Yield a line for each kind: its count if there are several, and its first occurrence."""
    return (f"{kind.count:,} like {kind.example}" if kind.count > 1 else kind.example for kind in kinds)


class RunStage(StrEnum):
    WAITING = "waiting"
    ABSENT = "absent"  # the source does not have the resource
    READING = "reading"
    READ = "read"  # into a mirror
    COMPARING = "comparing"  # records that the source lacks, and the gate
    BUILT = "built"  # the candidate is loaded and has passed its own gate; it waits for those of the other resources
    FINISHING = "finishing"  # merge, replica
    SWAPPING = "swapping"  # updates since the start, stamps, alias
    SWAPPED = "swapped"
    UPDATED = "updated"
    CHECKED = "checked"  # dry run
    REFUSED = "refused"


@dataclass(frozen=True)
class RoundedField:
    """How many numbers of a field lost a fraction, and the first of them, before and after."""

    field: str
    count: int
    given: float
    whole: int


@dataclass(frozen=True)
class EmptiedField:
    """In how many lines a field was left empty because it cannot be read (`on_error`), with examples."""

    field: str
    count: int
    examples: list[str]

    @classmethod
    def of(cls, line: SourceLine, fault: InvalidRecordError) -> Self:
        return cls(fault.member, 1, [_shortened(f"{line.file}:{line.number}: {fault.reason}")])


def merged_emptied(known: Iterable[EmptiedField], more: Iterable[EmptiedField]) -> list[EmptiedField]:
    """Return the fields of both, those that were emptied most often first."""
    merged: dict[str, EmptiedField] = {}
    for one in (*known, *more):
        if (earlier := merged.get(one.field)) is not None:
            examples = [*earlier.examples, *one.examples][:_MAX_EMPTIED_EXAMPLES]
            merged[one.field] = EmptiedField(one.field, earlier.count + one.count, examples)
        else:
            merged[one.field] = one
    return sorted(merged.values(), key=lambda one: -one.count)


@dataclass(frozen=True)
class UnservedKind:
    """How many records of an update are not served for a reason, and examples of them."""

    reason: str
    count: int
    examples: list[str]


@dataclass(kw_only=True)
class Counts:
    """What a run has counted of one resource; a checkpoint stores it for the run that resumes."""

    read: int = 0  # envelopes
    indexed: int = 0  # envelopes that created, changed or deleted a record
    unchanged: int = 0  # envelopes with the content that the index has
    stale: int = 0  # envelopes older than the index, or in updates than another one in the source
    merged: int = 0  # envelopes of a full source that has a newer one of the same identifier, which is kept
    vanished: int = 0  # records that a full source lacks, replaced by tombstones
    carried: int = 0  # records newer than a full source that lacks them, and older tombstones: carried over
    kept: int = 0  # live records whose line in a full source is unreadable: they stay as they are
    rounded: int = 0  # numbers that lost a fraction
    corrected: int = 0  # OnMarket values that contradicted Status
    zoneless: int = 0  # open houses of no known time zone
    emptied: list[EmptiedField] = field(default_factory=list)  # cells that cannot be read, by field

    @property
    def counts(self) -> "Counts":
        return Counts(**{count.name: getattr(self, count.name) for count in fields(Counts)})

    def resume(self, counts: "Counts") -> None:
        for name, count in vars(counts).items():
            setattr(self, name, count)


@dataclass
class ResourceReport(Counts):
    """One resource's run. At the end `read` is `indexed` + `unchanged` + `stale` + `merged` + `dead`."""

    resource: str
    stage: RunStage = RunStage.WAITING
    generation: str | None = None
    previous: str | None = None
    resumed_at: int = 0  # the line after which an interrupted build resumed
    is_taken: bool = False  # the candidate was built and refused by an earlier run
    skipped: int = 0  # rows of tables that were left out, which are not in `read`
    skip_reasons: dict[str, int] = field(default_factory=dict)  # `skipped` by rule of the column map
    dead: int = 0  # envelopes in the dead-letter file
    covers: str = ""  # the companies that a build replaces
    others: int = 0  # live records of other companies, which stay as they are
    vanished_companies: dict[str, int] = field(default_factory=dict)  # `vanished` by company, the largest 20
    documents: int = 0  # live records at the end
    tombstones: int = 0
    retries: int = 0  # requests
    bytes_read: int = 0  # stored bytes, compressed or not
    bytes_total: int = 0  # 0 if unknown
    seconds: float = 0.0
    dead_letters: str | None = None
    causes: list[FaultKind] = field(default_factory=list)  # the most frequent ones of dead letters
    roundings: list[RoundedField] = field(default_factory=list)  # of `rounded`, since an interruption
    is_first_load: bool = False  # refused because many lines are bad, before the companies have any record
    note: str | None = None  # what the run is waiting for
    refusal: str | None = None
    unserved: list[UnservedKind] = field(default_factory=list)  # records of an update, other than those in `dead`
    overridden: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def outcome(self, *, is_refused: bool) -> RunStage:
        """Return the last stage of a build; with `is_refused`, a resource of its run was refused."""
        if self.refusal:
            return RunStage.REFUSED
        return RunStage.BUILT if is_refused else RunStage.SWAPPED

    @property
    def changes(self) -> int:
        """How many records of a full source get a new stamp, about."""
        return self.indexed + self.vanished

    def add_roundings(self, roundings: Iterable[RoundedField]) -> None:
        known = {rounding.field: rounding for rounding in self.roundings}
        for rounding in roundings:
            earlier = known.get(rounding.field)
            known[rounding.field] = (
                rounding if earlier is None else replace(earlier, count=earlier.count + rounding.count)
            )
            self.rounded += rounding.count
        self.roundings = [*known.values()]

    def add_emptied(self, fields: Sequence[EmptiedField]) -> None:
        if fields:
            self.emptied = merged_emptied(self.emptied, fields)


# What `covers` says of a build that replaces everything.
EVERY_COMPANY_COVERED = "all companies"
OnProgress = Callable[[ResourceReport], None]


def ignore_progress(_report: ResourceReport) -> None:
    """Ignore a progress report."""


@dataclass
class RunSummary:
    resources: list[ResourceReport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # other than rejected records
    notes: list[str] = field(default_factory=list)  # what the source left open of times, and what else the run has done
    missing: list[str] = field(default_factory=list)  # what a replicated source is expected to give and does not
    keys_checked: int | None = None  # of a replication: when the oldest comparison of a key was, in Unix milliseconds

    def report_for(self, alias: str) -> ResourceReport:
        return next(report for report in self.resources if report.resource == alias)

    def add_row_notes(self, notes: RowNotes) -> None:
        for report in self.resources:
            report.skip_reasons = {**notes.skipped.get(report.resource, {})}
            report.skipped = sum(report.skip_reasons.values())
            report.warnings += notes.warnings.get(report.resource, ())
        self.notes += notes.times

    def resources_at(self, *stages: RunStage) -> list[str]:
        return [report.resource for report in self.resources if report.stage in stages]

    @property
    def is_refused(self) -> bool:
        return any(report.refusal for report in self.resources)

    @property
    def exit_code(self) -> int:
        """1 if there are dead letters, records that are not served, refused swaps or other problems, else 0."""
        reports = self.resources
        return int(bool(self.problems) or any(report.dead or report.refusal or report.unserved for report in reports))


# Always tolerated, since a share of few records is meaningless.
_MIN_TOLERATED = 10
# While reading, the share is taken of at least this many envelopes, so that bad first lines do not fail a long file.
_MIN_JUDGED_ENVELOPES = 10_000


def tolerated_count(share: float, of: int) -> float:
    """Return the limit for a number of records, at least `_MIN_TOLERATED`."""
    return max(_MIN_TOLERATED, share * of)


# The share of lines in which a field may be unreadable; above it, the column map is wrong rather than some cells.
_MAX_EMPTIED_SHARE = 0.1


def tolerated_emptied(lines: int) -> float:
    """Return in how many lines a field with `on_error` may be unreadable."""
    return tolerated_count(_MAX_EMPTIED_SHARE, lines)


def excess_dead_letters(report: ResourceReport, share: float, *, at_end: bool) -> str | None:
    """Return why a source has too many dead letters or unreadable cells, without a full stop; None if it does not."""
    judged = report.read if at_end else max(report.read, _MIN_JUDGED_ENVELOPES)
    if report.dead > tolerated_count(share, judged):
        return (
            f"{report.dead} of {report.read} {report.resource} are bad, more than BROKERAGE_DEAD_LETTER_LIMIT "
            f"({share:g}) allows, see {report.dead_letters}"
        )
    return excess_emptied(report, judged) if report.emptied else None


def excess_emptied(report: ResourceReport, judged: int) -> str | None:
    """Return which field with `on_error` is unreadable in too many lines, without a full stop; None if none is."""
    most = report.emptied[0]
    if most.count <= tolerated_emptied(judged):
        return None
    return (
        f"{most.field} cannot be read in {most.count:,} of {report.read:,} {report.resource}, more than a tenth, such "
        f"as {most.examples[0]}. Correct its declaration in the column map, or list the texts in `empty`"
    )


_MAX_NAMED = 10


def listed(names: Sequence[str], count: int, most: int = _MAX_NAMED) -> str:
    """Return the first `most` of some names, and how many more of `count` there are."""
    shown = names[:most]
    more = f" and {count - len(shown):,} more" if count > len(shown) else ""
    return f"{', '.join(shown)}{more}"


# The most of a line that is written; a longer one is cut.
_MAX_PAYLOAD_BYTES = 1_000_000
_MAX_CAUSES = 3  # in a report
_ADVICE = "Set BROKERAGE_DEAD_LETTER_DIR to a folder with free space that this user may write to."


class Fault(NamedTuple):
    """Why a line cannot be read: its field, empty if it has none, the reason, and its file and line.

    `policy` is what the source wants for its record, None if it does not say.
    """

    field: str
    reason: str
    origin: str
    policy: TroublePolicy | None = None

    @classmethod
    def of(cls, item: RejectedLine) -> Self:
        return cls(item.error.field, item.error.reason, f"{item.line.file}:{item.number}", item.line.policy)


class SavedLetters(msgspec.Struct):
    path: str  # of their file, which may not exist yet
    lines: list[int] = []  # the numbers of the lines in the file
    records: list[str] = []  # identifiers of the records in those lines
    unidentified: list[int] = []  # those of the lines that name no record
    stray: int = 0  # lines of the source that name no resource and are reported with another


class DeadLetters:
    """The rejected lines of one run; the file is created with the first one.

    `records` are the records that they are about, `unidentified` the lines of which that is unknown. `stray` is the
    number of lines of the source that name no resource and are reported with another.
    """

    def __init__(self, folder: str, alias: str) -> None:
        timestamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%S%fZ")
        self._path = Path(folder) / f"{alias}-{timestamp}.ndjson"
        self._file: IO[bytes] | None = None
        self.line_numbers: set[int] = set()
        self.records: dict[str, Fault] = {}
        self.unidentified: set[int] = set()
        self.stray = 0
        self._tally = FaultTally()

    @property
    def existing_path(self) -> str | None:
        return str(self._path) if self.line_numbers else None

    def update_report(self, report: ResourceReport) -> None:
        report.dead, report.dead_letters = len(self.line_numbers), self.existing_path
        report.causes = self._tally.kinds(_MAX_CAUSES)

    def add(self, item: RejectedLine) -> None:
        """Write a rejected line, once per line number."""
        if item.position in self.line_numbers:
            return
        self.line_numbers.add(item.position)
        self._tally.add_line(item)
        self.records |= dict.fromkeys(item.identifiers or (), Fault.of(item))
        if item.identifiers is None:
            self.unidentified.add(item.position)
        entry = {
            "file": item.line.file,
            "line": item.number,
            **({"position": item.position} if item.line.before else {}),
            "records": None if item.identifiers is None else sorted(item.identifiers),
            "field": item.error.field,
            "reason": item.error.reason,
            **(
                {"others": [{"field": one.field, "reason": one.reason} for one in item.error.others]}
                if item.error.others
                else {}
            ),
            **({"policy": item.line.policy} if item.line.policy else {}),
            "payload": item.data[:_MAX_PAYLOAD_BYTES].decode(errors="replace").rstrip("\r\n"),
        }
        with report_folder_errors(self._path.parent, _ADVICE):
            self._open_file().write(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))

    def save(self) -> SavedLetters:
        """Flush the entries to the operating system, and return what a checkpoint stores, which relies on them."""
        self.flush()
        lines, unidentified = sorted(self.line_numbers), sorted(self.unidentified)
        return SavedLetters(str(self._path), lines, sorted(self.records), unidentified, self.stray)

    def resume(self, saved: SavedLetters) -> None:
        """Continue the file of an interrupted run; keep only the entries of the checkpointed line numbers."""
        self._path, self.line_numbers = Path(saved.path), set(saved.lines)
        self.unidentified, self.stray = set(saved.unidentified), saved.stray
        self.records = dict.fromkeys(saved.records, Fault("", "could not be read", saved.path))
        if not self._path.is_file():
            return
        entries = self._path.read_bytes().splitlines(keepends=True)
        if kept := [entry for entry in entries if _line_number(entry) in self.line_numbers]:
            self._count(kept)
            part = self._path.with_suffix(".part")
            create_file(part)
            part.write_bytes(b"".join(kept))
            part.replace(self._path)
        else:
            self._path.unlink()

    def _count(self, entries: list[bytes]) -> None:
        for entry in map(orjson.loads, entries):
            for one in (entry, *entry.get("others", ())):
                self._tally.add(entry["file"], entry["line"], one["field"], one["reason"])
            fault = Fault(entry["field"], entry["reason"], f"{entry['file']}:{entry['line']}", entry.get("policy"))
            self.records |= dict.fromkeys(entry["records"] or (), fault)

    def _open_file(self) -> IO[bytes]:
        if self._file is None:
            make_folder(self._path.parent)
            self._file = open(self._path, "ab", opener=open_private)  # noqa: SIM115 - closed by `close`
        return self._file

    def flush(self) -> None:
        if self._file is not None:
            with report_folder_errors(self._path.parent, _ADVICE):
                self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            with report_folder_errors(self._path.parent, _ADVICE):
                self._file.close()


def _line_number(entry: bytes) -> int | None:
    """Return the position of an entry's line, None if it is truncated."""
    try:
        content = orjson.loads(entry)
        return int(content.get("position", content["line"]))
    except orjson.JSONDecodeError:
        return None


def check_folder(folder: str) -> None:
    """Raise WorkFolderError if no file can be written to the folder, which is left as it was.

    A folder that does not exist yet is created with the first dead letter.
    """
    with report_folder_errors(folder, _ADVICE):
        path = Path(folder).absolute()
        present = next(parent for parent in (path, *path.parents) if parent.exists())
        with TemporaryFile(dir=present) as file:
            file.write(b"\n")
