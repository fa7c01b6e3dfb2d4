from tests.store.s3_server import s3  # noqa: F401
