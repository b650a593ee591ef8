"""Loading by several processes: this one hands out ranges of the source, the others parse and write them."""
