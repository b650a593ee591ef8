"""The same feed written in other ways, to be measured beside the service."""
