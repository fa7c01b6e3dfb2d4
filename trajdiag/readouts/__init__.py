"""Readouts: what turns a frozen trajectory into an exit loop."""
