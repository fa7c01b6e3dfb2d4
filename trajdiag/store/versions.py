"""The software that made an artifact."""

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("trajdiag", "torch", "numpy")


def software_versions() -> dict[str, str]:
    """Version by package, and Python's."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from a source tree that was never installed
            found[package] = "not installed"
    return found
