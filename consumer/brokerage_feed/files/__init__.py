"""Published files: downloads, their records, and copies that begin with them."""
