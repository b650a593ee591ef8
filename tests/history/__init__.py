"""The history of prices and statuses, over HTTP and the RESO Web API."""
