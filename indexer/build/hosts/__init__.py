"""Loading by several hosts: the lock's holder hands out ranges of the source through documents of the control index."""
