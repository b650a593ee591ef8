"""Generated MLS data and random changes to it, and tests of them."""
