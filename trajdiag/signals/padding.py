"""The logit of a class that an example does not have, and how signals know it."""

PADDED = -1e30
"""Its probability is exactly 0 and its change from loop to loop too, so that no signal sees it."""
ABSENT = 10 * PADDED, 0.1 * PADDED
"""Logits between are of classes that a row does not have, in whatever float type they came."""
