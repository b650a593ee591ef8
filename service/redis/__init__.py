"""Limits of keys that all processes and hosts share through Redis."""
