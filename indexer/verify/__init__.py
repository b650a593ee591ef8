"""Verification of a live index against its source or an earlier generation."""
