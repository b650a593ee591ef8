"""What differs between sources, as data: profiles, the map of a source, and what a source is expected to have."""
