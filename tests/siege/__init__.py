"""An adversary: attacks on a running service and on its clients, while honest keys read."""
