"""The RESO Web API on a real node over real HTTP."""
