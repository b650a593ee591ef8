"""The RESO Web API: read-only OData 4.01 with Data Dictionary names (decision 0014)."""
