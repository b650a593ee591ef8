"""Stored records to response records: projection, `timestamps_only` and GeoJSON, on encoded bytes."""
