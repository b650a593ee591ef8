"""Tests of service.keys and field permissions."""
