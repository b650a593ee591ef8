"""Tests of outbox, publisher and whole replication rounds."""
