"""The verbs of the command line, one file each: thin skins over the Python functions."""
