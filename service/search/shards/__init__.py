"""Searches of an index of several shards: which are asked, which copies are seen, and when a swap replaced them."""
