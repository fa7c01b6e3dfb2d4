"""Scores to causes: regret, comparisons, findings, verdict."""
