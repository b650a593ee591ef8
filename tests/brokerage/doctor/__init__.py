"""Tests of `brokerage doctor`."""
