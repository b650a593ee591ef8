"""Tests of service.limits."""
