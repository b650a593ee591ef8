"""Faults, readers and what is true: the parts of which chaos, disasters and siege are made."""
