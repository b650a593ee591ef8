"""Storage of copies: one crash-safe SQLite file, and exports of it in other formats."""
