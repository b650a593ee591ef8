"""What must be the same on all hosts that share a build: what they build, of which files, by which program."""

from __future__ import annotations

from hashlib import blake2b
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from indexer.documents.coverage import CoverageRequest
from indexer.errors import SourceError
from indexer.source.files import open_raw
from indexer.source.line_ranges import divisible_file
from mappings.index_body import schema_fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from indexer.settings import IndexerSettings
    from indexer.source.lines import Source
    from mappings import Resource

_DISTRIBUTION = "brokerage-server"
_DIGEST_BYTES = 16
_BLOCK_BYTES = 1 << 20
# Of each end of a file. Of the rest, each range is compared before it is loaded.
_COMPARED_BYTES = 1 << 16


class FileFacts(msgspec.Struct, frozen=True):
    """The size of a file, and a digest of its two ends."""

    size: int
    ends: str


class LineLimits(msgspec.Struct, frozen=True):
    """The settings that decide which lines are valid. Helping hosts apply those of the coordinator."""

    max_record_bytes: int
    max_record_depth: int
    future_seconds: float


class BuildTerms(msgspec.Struct, frozen=True):
    """What a build loads: resources, companies, and the files that can be divided, by resource."""

    program: str
    resources: list[str]
    covered: CoverageRequest
    files: dict[str, FileFacts]
    schemas: dict[str, str]
    limits: LineLimits


def build_terms(
    source: Source, resources: list[Resource], covered: CoverageRequest, settings: IndexerSettings
) -> BuildTerms:
    """Return the terms of a command; raise SourceError if it has nothing that several hosts can load."""
    files = {
        resource.alias: file_facts(path)
        for resource in resources
        if source.has(resource) and (path := divisible_file(source, resource)) is not None
    }
    if not files:
        raise SourceError("Several hosts can share uncompressed .ndjson files in a folder only: leave out --share.")
    return BuildTerms(
        version(_DISTRIBUTION),
        [resource.alias for resource in resources],
        covered,
        files,
        {resource.alias: schema_fingerprint(resource) for resource in resources},
        LineLimits(settings.max_record_bytes, settings.max_record_depth, settings.future_seconds),
    )


def require_same(own: BuildTerms, other: BuildTerms, coordinator: str) -> None:
    """Raise SourceError that names the first difference between this command and the build of another host."""
    if difference := next(_differences(own, other), None):
        raise SourceError(
            f"This command cannot share the build of {coordinator}: {difference}. Use the same source and options."
        )


def _differences(own: BuildTerms, other: BuildTerms) -> Iterator[str]:
    if own.program != other.program:
        yield f"this is version {own.program}, that one is {other.program}"
    if own.resources != other.resources:
        yield f"it builds {', '.join(own.resources)} here and {', '.join(other.resources)} there"
    if own.covered != other.covered:
        yield f"it covers {_named(own.covered)} here and {_named(other.covered)} there"
    for alias in sorted(own.files.keys() | other.files.keys()):
        yield from _file_differences(alias, own.files.get(alias), other.files.get(alias))
    if own.schemas != other.schemas:
        yield "the two programs declare different schemas"


def _file_differences(alias: str, own: FileFacts | None, other: FileFacts | None) -> Iterator[str]:
    if own is None or other is None:
        yield f"only {'there' if own is None else 'here'} {alias} are an uncompressed file"
    elif own.size != other.size:
        yield f"{alias}.ndjson has {own.size:,} bytes here and {other.size:,} there"
    elif own.ends != other.ends:
        yield f"{alias}.ndjson has another content here than there"


def _named(covered: CoverageRequest) -> str:
    return "all companies" if covered.is_all else ", ".join(covered.companies) or "the companies of the source"


def file_facts(path: Path) -> FileFacts:
    """Return what is compared of a file before its ranges."""
    size = path.stat().st_size
    ends = [(0, min(size, _COMPARED_BYTES)), (max(0, size - _COMPARED_BYTES), size)]
    return FileFacts(size, bytes_digest(path, *ends))


def bytes_digest(path: Path, *parts: tuple[int, int]) -> str:
    """Return a hexadecimal digest of parts of a file, each from a byte to before another. May run in a thread."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    with open_raw(path) as raw:
        for start, end in parts:
            raw.seek(start)
            while start < end and (block := raw.read(min(_BLOCK_BYTES, end - start))):
                digest.update(block)
                start += len(block)  # noqa: PLW2901 - the next block
    return digest.hexdigest()
