"""OData query options of the stand-in server: filters, ordering, paging, and tests of them."""
