"""A game of disasters: restores, lost indices, wrong clocks, foreign clusters and full disks, seen by consumers."""
