"""The RESO Data Dictionary mapping: model, loader, checks, and overrides by an MLS map."""
