"""Server-driven paging: page sizes, `$skiptoken` and `@odata.nextLink`."""
