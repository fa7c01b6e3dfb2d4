"""How long work tells how far it is."""

from collections.abc import Callable

Progress = Callable[[str], None]
"""Called with one line at a time, which is for the user to read."""
