"""Records which key was sent which records, for audits and takedowns (decision 37). Off by default."""
