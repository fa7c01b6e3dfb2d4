"""Frozen trajectories on disk."""
