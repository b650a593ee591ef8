"""The operators' console: its data, exactly, and its page in a real browser."""
