"""Tests of `brokerage keys` and of how the service follows."""
