"""Thresholds to deploy: chosen for a target, kept in a file."""
