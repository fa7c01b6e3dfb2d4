"""Early exit that really stops: a readout run live, loop by loop."""
