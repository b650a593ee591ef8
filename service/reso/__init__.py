"""The same records as a RESO Web API: read-only OData 4.01 under Data Dictionary names (decision 0014)."""
