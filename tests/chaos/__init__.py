"""Fault injection while consumers read: `python -m tests.chaos` writes the results."""
