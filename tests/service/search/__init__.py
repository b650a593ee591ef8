"""Tests of service.search."""
