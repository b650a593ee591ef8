"""Publications: files of all records that a key without restrictions reads of a company (decision 49)."""
