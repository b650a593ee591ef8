"""Tests of service.health."""
