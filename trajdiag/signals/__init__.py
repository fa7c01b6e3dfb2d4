"""Per-loop stopping signals."""
