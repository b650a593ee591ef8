"""Read the company directory from the companies index."""

from collections.abc import Mapping
from typing import Any

from service.scope import CompanyDirectory, ListedCompany
from service.search.document_set import DocumentSet, DocumentSetReader
from service.search.engine import SearchEngine

_READ = ("id", "numeric_id", "parent_company_id", "deleted")


class CompanyDirectoryReader:
    """Reads the directory of all companies, and builds another one only if companies have changed."""

    def __init__(self, engine: SearchEngine, alias: str) -> None:
        """Start without companies."""
        self._reader = DocumentSetReader(engine, alias, _listed_company, "id", _source=_READ)
        self._companies: DocumentSet[ListedCompany | None] | None = None
        self._directory = CompanyDirectory()

    async def read(self) -> CompanyDirectory:
        """Return the directory, the same object if nothing has changed; raise ApiError."""
        companies = await self._reader.read(self._companies)
        if companies is not self._companies:
            self._directory = CompanyDirectory.of(filter(None, companies.by_id.values()))
            self._companies = companies
        return self._directory


def _listed_company(hit: Mapping[str, Any]) -> ListedCompany | None:
    """Return the company of a hit, None for a deleted one."""
    document = hit["_source"]
    if document.get("deleted"):
        return None
    return ListedCompany(document["id"], document.get("numeric_id"), document.get("parent_company_id"))
