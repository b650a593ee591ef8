"""Tests of service.records."""
