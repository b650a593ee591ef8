"""Data that earlier releases wrote, and what this one makes of it."""
