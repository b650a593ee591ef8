"""Records as consumers replicate them: what changes, published files and their tokens share (decision 12)."""
