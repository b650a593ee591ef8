"""Replication from a RESO Web API: read into a local mirror, then published through builds and updates."""
