"""Replication from a RESO Web API: read politely, kept in a mirror, told like any other source of envelopes."""
