"""The block that a live index has while Elasticsearch copies it, and the note of it in the mapping's `_meta`."""

from __future__ import annotations

BLOCK_SETTING = "index.blocks.write"
BLOCK_NOTE = "blocked_for"  # the copy that is being made; null without one
