"""The services of providers, as their public documentation describes them: see README.md."""
