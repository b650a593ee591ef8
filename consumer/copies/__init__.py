"""Where copies are kept: one SQLite file that can be killed at any moment, and exports of it in other forms."""
