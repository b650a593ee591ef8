"""Probing a source: which profile fits, what will be missing, a sample of its listings, and a map to start from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from cluster.terminal import counted
from indexer.errors import SourceError
from indexer.reso.client.edmx import EntityMetadata, parse_entity_sets
from indexer.reso.client.odata import ODataQuery, SourceRejectedError
from indexer.reso.client.reso_client import ResoClient
from indexer.reso.entity_forms import SourceForms, find_gaps, no_listings
from indexer.reso.settings import ResoSettings
from indexer.reso.source_map import GENERIC, SYSTEM, SourceMap, profile_names, read_map

_PROPERTY = "Property"
# The system, while it is unknown.
_UNKNOWN_SYSTEM = "NAME"
_HEADER = "# Written by `brokerage index replicate --probe`: complete it, and pass it with --map.\n"


@dataclass(frozen=True)
class ProbeResult:
    """What a source is like: the profile that fits and why, what is missing, and the text of a map."""

    profile: str
    lines: list[str]
    map_text: str


async def probe_source(
    url: str, settings: ResoSettings, on_wait: Callable[[str], None], *, profile: str = "", system: str = ""
) -> ProbeResult:
    """Read the metadata and a page of a source; raise SourceError if that is impossible. Nothing is stored."""
    client = ResoClient(url, settings, on_wait)
    await client.open()
    try:
        offered = await client.fetch_metadata(parse_entity_sets)
        chosen, reason = (profile, "as given") if profile else choose_profile(url, offered)
        source = read_map(None, chosen, system or _UNKNOWN_SYSTEM)
        forms = SourceForms(source.dialect, source.dictionary, offered)
        if _PROPERTY not in forms.own_sets():
            raise SourceError(f"The source has no {_PROPERTY}. Is {url} the root of a RESO Web API?")
        lines = [f"Profile: {chosen} ({reason}). Tried {source.dialect.tested}.", *_descriptions(source, forms)]
        lines += [f"Missing: {gap.text}" for gap in find_gaps(source.dialect, forms, offered, ())]
        try:
            lines += await fetch_sample(client, source, forms)
        except SourceRejectedError as error:
            hint = " Give --system NAME." if SYSTEM in source.dialect.filter and not system else ""
            lines.append(f"A page of {_PROPERTY} could not be read: {error}{hint}")
    finally:
        await client.close()
    return ProbeResult(chosen, lines, _map_text(chosen, system, source, lines))


def choose_profile(url: str, offered: Mapping[str, EntityMetadata]) -> tuple[str, str]:
    """Return the profile that fits by host or metadata, and why."""
    host = urlsplit(url).hostname or ""
    dialects = {name: read_map(None, name, _UNKNOWN_SYSTEM).dialect for name in profile_names()}
    for name, dialect in dialects.items():
        if found := next((part for part in dialect.hosts if part in host), None):
            return name, f"the host name contains {found}"
    for name, dialect in dialects.items():
        if found := next((mark for mark in dialect.marks if _has(offered, mark)), None):
            return name, f"the metadata has {found}"
    return GENERIC, "nothing points to another"


def _has(offered: Mapping[str, EntityMetadata], mark: str) -> bool:
    entity, _, field = mark.partition(".")
    return entity in offered and field in offered[entity]


def _descriptions(source: SourceMap, forms: SourceForms) -> list[str]:
    sets = f"Entity sets that are read: {', '.join(forms.own_sets())}."
    numbers = [name for name in forms.own_sets() if forms.form(name).has_number_key]
    keys = [f"Keys are numbers in {', '.join(numbers)}."] if numbers else []
    return [sets, *filter(None, map(forms.placed, source.dialect.children)), *keys]


def _map_text(profile: str, system: str, source: SourceMap, lines: list[str]) -> str:
    needs_system = SYSTEM in source.dialect.filter
    own = [f'profile = "{profile}"', *([f'system = "{system or _UNKNOWN_SYSTEM}"'] if needs_system or system else [])]
    company = ["", "# [company]", '# platform_company_id = "acme"', '# name = "Acme Realty"', '# numeric_id = "4711"']
    fields = ["", "# [Property.fields]", '# PublicTitle = "MLS_Headline"']
    return _HEADER + "\n".join([*(f"# {line}" for line in lines), "", *own, *company, *fields]) + "\n"


_SIZE = 10


async def fetch_sample(client: ResoClient, source: SourceMap, forms: SourceForms) -> list[str]:
    """Return sentences about a page of listings; raise SourceRejectedError or SourceError."""
    form = forms.form(_PROPERTY)
    embedded = [child.field for child in form.children if child.field]
    query = ODataQuery(_PROPERTY, (*forms.select(_PROPERTY), *embedded), top=_SIZE, with_count=True)
    query = replace(query, expand=tuple(child.expand for child in form.children if child.expand))
    page = await client.fetch_page(query.where(form.filter, form.live))
    rows = page.value[:_SIZE]
    total = "an unknown number of" if page.count is None else f"{page.count:,}"
    lines = [f"{counted(len(rows), _PROPERTY + ' record')} of {total} read."]
    if not rows:
        return [*lines, no_listings(source.dialect)]
    expected = [field for field in source.dialect.expects.get(_PROPERTY, ()) if field in query.select]
    if empty := [field for field in expected if not any(row.get(field) for row in rows)]:
        lines.append(f"Empty in all of them: {', '.join(empty)}.")
    for child in form.children:
        count = sum(len(items) for row in rows if isinstance(items := row.get(child.member), list))
        lines.append(f"With {counted(count, child.name + ' record')}.")
    return lines
