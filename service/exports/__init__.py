"""Published files of whole companies: their manifests and their bytes (decision 49)."""
