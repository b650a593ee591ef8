"""Tests of HTTP client, initial load, incremental sync and comparison."""
