"""Generated MLS data, and random changes to it."""
