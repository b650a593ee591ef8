"""Measurements: arms side by side in one run, interleaved; ratios of medians, since times alone mean little."""
