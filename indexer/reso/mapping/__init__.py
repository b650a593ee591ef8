"""Source records (RESO Data Dictionary) to the records that the API serves."""
