"""A stand-in RESO Web API server that keeps data, a world of made-up records for it, and random changes of them."""
