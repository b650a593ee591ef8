"""Tests of the mapping from source records to served records."""
