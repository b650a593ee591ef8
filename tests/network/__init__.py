"""The network of the tests: one scripted server and one proxy, for faults that real programs do not show on demand."""
