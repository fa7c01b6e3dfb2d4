"""Text that can be kept: without half characters (lone surrogates), which no encoding has bytes
for."""


def is_whole(text: str) -> bool:
    """Whether `text` has no half characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
