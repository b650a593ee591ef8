"""The stand-in RESO Web API server: data, events, authentication, faults, and tests of them."""
