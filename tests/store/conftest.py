import pytest

from tests.store.s3_server import s3  # noqa: F401
from trajdiag.store import schema


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of at most 64 examples, so that a small store has several."""
    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", 64)
    monkeypatch.setattr(schema, "COLUMN_EXAMPLES", 128)
