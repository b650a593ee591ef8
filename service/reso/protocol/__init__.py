"""OData conventions: the root path, links, version header and error bodies."""
