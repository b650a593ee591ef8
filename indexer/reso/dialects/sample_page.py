"""A page of listings as a sample: which expected fields are filled, and whether photos come."""

from dataclasses import replace

from indexer.reso.client.odata_query import ODataQuery
from indexer.reso.client.reso_client import ResoClient
from indexer.reso.dialects.entity_form import SourceForms
from indexer.reso.dialects.gaps import no_listings
from indexer.reso.dialects.source_map import SourceMap

_PROPERTY = "Property"
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
    lines = [f"A page of {len(rows)} of {total} {_PROPERTY} records was read."]
    if not rows:
        return [*lines, no_listings(source.dialect)]
    expected = [field for field in source.dialect.expects.get(_PROPERTY, ()) if field in query.select]
    if empty := [field for field in expected if not any(row.get(field) for row in rows)]:
        lines.append(f"Empty in all of them: {', '.join(empty)}.")
    for child in form.children:
        count = sum(len(items) for row in rows if isinstance(items := row.get(child.member), list))
        lines.append(f"They came with {count} {child.name} records.")
    return lines
