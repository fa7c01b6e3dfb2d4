"""The learned bound: the best causal stopping rule that can be learned from frozen states."""
