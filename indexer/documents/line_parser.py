"""Parsing of source lines into documents, in chunks: decoding, normalizing, listing rules and company."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import orjson

from indexer.clock import epoch_time
from indexer.documents.builder import DocumentBuilder, Marked, PendingDocument
from indexer.documents.companies import Companies
from indexer.documents.envelope import (
    STRICT_DECODE_ERRORS,
    CredibleTimes,
    EnvelopeDecoder,
    identifier_decoder,
    identifiers_of,
    stored_identifiers,
    strict_decoder,
)
from indexer.documents.normalizer import (
    ExactValues,
    Gap,
    RecordNormalizer,
    depth_check,
    fill_gap,
    record_completion,
    record_rules,
)
from indexer.errors import InvalidRecordError
from indexer.reporting.report import EmptiedField, RoundedField, merged_emptied
from indexer.settings import IndexerSettings
from indexer.source.lines import LineStream, RejectedLine, SourceLine
from mappings import COMPANY, Resource
from mappings.listing import STATUSES
from mappings.stored_document import lacking

_MAX_STRICT_DECODE_PAUSE = 63  # lines
_MAX_SHOWN = 80  # characters of an invalid identifier
_DEFAULTS = IndexerSettings()
_MAX_FAULTS = 50  # of a line
_MAX_SEARCHED_BYTES = 1_000_000
_PATH_PART = re.compile(r"[^.\[\]]+")
_EPOCH, _NIL = "1970-01-01T00:00:00Z", "00000000-0000-0000-0000-000000000000"
_NO_NAMES: Mapping[str, str] = {}


@dataclass
class ParsedChunk:
    """The documents and rejected lines of one chunk, and the position of the stream after it."""

    read: int = 0
    roundings: dict[str, RoundedField] = field(default_factory=dict)
    corrected: int = 0
    emptied: list[EmptiedField] = field(default_factory=list)
    position: int = 0  # bytes of the source
    last_line: int = 0
    drafts: list[PendingDocument] = field(default_factory=list)
    rejected: list[RejectedLine] = field(default_factory=list)


class LineParser:
    def __init__(self, resource: Resource, companies: Companies, settings: IndexerSettings = _DEFAULTS) -> None:
        self.resource = resource
        self._times = CredibleTimes(resource, settings.future_seconds)
        self._decode_strictly = strict_decoder(resource)
        self._decode_identifier = identifier_decoder(resource)
        self._decode = EnvelopeDecoder(resource)
        self._normalizer = RecordNormalizer(resource.stored)
        self._check_depth = depth_check(resource.stored, settings.max_record_depth)
        self._apply_rules = record_rules(resource)
        self._complete = record_completion(resource)
        self._build = DocumentBuilder(resource)
        self._lines_until_strict = 0  # lines until the strict decoder is tried again
        self._pause = 0  # lines without the strict decoder after its next failure
        self._companies = companies
        self._is_company = resource is COMPANY
        # For values that a record must have, so that its other faults show.
        self._valid_values = {
            "updated_at": _EPOCH,
            f"record.{resource.identifier}": _NIL,
            "record.Status": STATUSES[0],
            "platform_company_id": next(iter(companies.keys), None),
        }

    def parse(self, line: SourceLine, chunk: ParsedChunk, microseconds: int | None = None) -> PendingDocument:
        """Return the document of a line and count its corrections; raise InvalidRecordError for an invalid line.

        It has another `updated_at` if one is given.
        """
        fault = None
        try:
            document = self._parse(line, chunk, microseconds)
        except InvalidRecordError as error:
            fault = InvalidRecordError.of_all([error])  # without the frames of the first, which hold much memory
        if fault is not None:
            line = self._without_optional(line, fault)
            document = self._parse(line, chunk, microseconds)
        if line.emptied:
            chunk.emptied = merged_emptied(chunk.emptied, map(partial(EmptiedField.of, line), line.emptied))
        if document.gaps:
            document.named = partial(self._parse_named, line, microseconds, document.version)
        if not line.is_dated or line.period is not None:
            document.redated = lambda other: self.parse(line, ParsedChunk(), other)
        return document

    def _without_optional(self, line: SourceLine, fault: InvalidRecordError) -> SourceLine:
        """Return an invalid line without the values at fault if these may be empty; raise all faults otherwise."""
        faults = [fault]
        rest = self._search_faults(line, faults)
        if not line.optional.issuperset(one.member for one in faults):
            raise InvalidRecordError.of_all([*line.emptied, *faults])
        return line._replace(data=rest, emptied=(*line.emptied, *faults))

    def _search_faults(self, line: SourceLine, faults: list[InvalidRecordError]) -> bytes:
        """Add its other faults to those of a line; return it without the values at fault, or with valid ones instead.

        The parser stops at the first fault. So the line is read again without it, until it is valid.
        """
        data = line.data
        try:
            envelope = orjson.loads(data) if len(data) <= _MAX_SEARCHED_BYTES else None
        except orjson.JSONDecodeError:
            return data
        for fault in faults:
            self._mend(envelope, fault)
        while envelope is not None and len(faults) < _MAX_FAULTS:
            try:
                data = orjson.dumps(envelope)
                self._parse(line._replace(data=data), ParsedChunk(), None)
                break
            except orjson.JSONEncodeError:  # nested too deeply
                break
            except InvalidRecordError as error:
                if any(fault.field == error.field for fault in faults):
                    break
                faults.append(InvalidRecordError.of_all([error]))
                self._mend(envelope, error)
        return data

    def _mend(self, envelope: Any, fault: InvalidRecordError) -> None:
        """Remove the value at fault, or replace one that a record must have; one that cannot be found stays."""
        *parents, name = [int(part) if part.isdigit() else part for part in _PATH_PART.findall(fault.field)] or [""]
        with suppress(KeyError, IndexError, TypeError):
            for parent in parents:
                envelope = envelope[parent]
            if (valid := self._valid_values.get(fault.field)) is not None:
                envelope[name] = valid
            else:
                del envelope[name]

    def _parse_named(
        self, line: SourceLine, microseconds: int | None, version: int, names: Mapping[str, str]
    ) -> PendingDocument:
        """Return the document of a line with names that its source lacks, and the version that it has without them."""
        document = self._parse(line, ParsedChunk(), microseconds, names, version)
        if not line.is_dated:
            document.redated = lambda other: self._redated_with_names(line, other, names)
        return document

    def _redated_with_names(self, line: SourceLine, microseconds: int, names: Mapping[str, str]) -> PendingDocument:
        version = self._parse(line, ParsedChunk(), microseconds).version
        return self._parse(line, ParsedChunk(), microseconds, names, version)

    def _parse(
        self,
        line: SourceLine,
        chunk: ParsedChunk,
        microseconds: int | None,
        names: Mapping[str, str] = _NO_NAMES,
        version: int | None = None,
    ) -> PendingDocument:
        envelope, normalize = self._read(line.data)
        if microseconds is not None:
            envelope.updated_at = epoch_time(microseconds)
        self._times.check(envelope)
        company = self._company_key(envelope)
        self._normalize_identifier(envelope)
        exact: ExactValues = {}
        gaps: list[Gap] = []
        if not envelope.deleted:
            self._check_depth(envelope.record)
            exact = normalize(envelope.record, chunk.roundings)
            chunk.corrected += self._apply_rules(envelope)
            gaps = self._complete(envelope)
        if not gaps:
            return self._build(line, envelope, company, exact)
        for gap in gaps:
            fill_gap(envelope, gap.member, names.get(gap.member))
        reason = lacking(gap.member for gap in gaps)
        document = self._build(line, envelope, company, exact, Marked(reason, version))
        document.gaps = tuple(gaps)
        return document

    def parse_into(self, item: SourceLine | RejectedLine, chunk: ParsedChunk) -> None:
        if isinstance(item, RejectedLine):
            chunk.rejected.append(self._identified(self._completed(item)))
            return
        try:
            chunk.drafts.append(self.parse(item, chunk))
        except InvalidRecordError as error:
            chunk.rejected.append(self._identified(RejectedLine(item, error, self.resource)))

    def _completed(self, item: RejectedLine) -> RejectedLine:
        """Return a rejected line with the faults that its source cannot see."""
        if not item.rest:
            return item
        faults = [*item.error.all]
        self._search_faults(item.line._replace(data=item.rest), faults)
        return item._replace(error=InvalidRecordError.of_all(faults))

    def _identified(self, item: RejectedLine) -> RejectedLine:
        """Return a rejected line with the identifiers of its records, if they can be read."""
        if item.resource is not self.resource:
            return item
        if item.identifiers is None:
            return item._replace(identifiers=identifiers_of(self._decode_identifier, item.data, self.resource))
        return item._replace(identifiers=stored_identifiers(item.identifiers, self.resource))

    def _read(self, data: bytes) -> tuple[Any, Callable[[Any, dict[str, RoundedField]], ExactValues]]:
        """Return an envelope and the function that normalizes its record; both decoders lead to the same document.

        After failures the strict decoder is tried less often, down to one line in 64: a failure at the end of a line
        costs as much as decoding it.
        """
        if self._lines_until_strict:
            self._lines_until_strict -= 1
        else:
            try:
                envelope = self._decode_strictly(data)
            except STRICT_DECODE_ERRORS:
                self._lines_until_strict, self._pause = self._pause, min(2 * self._pause + 1, _MAX_STRICT_DECODE_PAUSE)
            else:
                self._pause = 0
                return envelope, self._normalizer.normalize_strict
        return self._decode(data), self._normalizer.normalize

    def _normalize_identifier(self, envelope: Any) -> None:
        """Raise InvalidRecordError for an identifier that the service could not find; a deletion may have any."""
        name, record = self.resource.identifier, envelope.record
        identifier = getattr(record, name)
        canonical = self.resource.canonical_identifier(identifier)
        if canonical is not None:
            setattr(record, name, canonical)
        elif not envelope.deleted:
            raise InvalidRecordError(
                f"record.{name}", f"is {identifier[:_MAX_SHOWN]!r}: {self.resource.identifier_rule}"
            )

    def _company_key(self, envelope: Any) -> str:
        coverage = self._companies.coverage
        if not self._is_company:
            company = self._companies.company_of(envelope)
            coverage.require(company, "platform_company_id")
            return company
        record, given, parent = envelope.record, envelope.platform_company_id, envelope.parent_company_id
        coverage.require(record.platform_company_id, "record.platform_company_id")
        self._companies.validate(record)
        if given is not None and given not in {record.platform_company_id, record.numeric_id}:
            raise InvalidRecordError(
                "platform_company_id", f"is {given!r}, but the record is {record.platform_company_id!r}"
            )
        if parent is not None:
            envelope.parent_company_id = self._companies.key_of(parent) or parent
        return str(record.platform_company_id)


class ChunkReader:
    """Splits a stream into chunks within the limits of one bulk request."""

    def __init__(self, parser: LineParser, stream: LineStream, settings: IndexerSettings) -> None:
        self._parser = parser
        self._stream = stream
        self._settings = settings

    def read(self) -> ParsedChunk | None:
        """Return the next chunk, None at the end. May run in a thread."""
        chunk, size = ParsedChunk(), 0
        for item in islice(self._stream.lines, self._settings.bulk_documents):
            chunk.read += 1
            chunk.last_line = item.position
            size += len(item.data)
            self._parser.parse_into(item, chunk)
            if size >= self._settings.bulk_bytes:
                break
        chunk.position = self._stream.position()
        return chunk if chunk.read else None
