"""Tests of the consumer: against a small service that breaks on demand, and against the real one."""
