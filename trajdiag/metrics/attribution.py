"""Whose fault a wrong exit is: the trajectory's, or the readout's."""

PARTS = ("ok", "trajectory", "early", "late")
"""`ok`: right at the exit. `trajectory`: no loop is right. `early`: left before the first right
loop. `late`: wrong at the exit, after a loop that was right (overthinking)."""
