"""Generations of an index: their lifecycle, candidates with their checkpoints, and the gates before a swap."""
