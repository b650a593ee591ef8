"""Tests of service.projection."""
