"""Worker processes: listening sockets, supervision, rolling replacement and graceful shutdown."""
