"""Published files: written, served, and copied from."""
