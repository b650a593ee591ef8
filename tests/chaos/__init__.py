"""Faults, one after the other, while consumers read: `python -m tests.chaos` writes what came of it."""
