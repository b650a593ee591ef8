"""Tests of service.parameters."""
