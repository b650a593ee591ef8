"""Tests of service.workers."""
