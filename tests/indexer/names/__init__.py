"""Tests of the names that listings have of agents and offices where their source lacks them."""
