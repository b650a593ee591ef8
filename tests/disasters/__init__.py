"""A game of disasters: restores, lost indices, wrong clocks, foreign clusters and full disks, while consumers follow."""
