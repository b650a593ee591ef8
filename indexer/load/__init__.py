"""Loading the lines of a source into a candidate, by this process or by several."""
