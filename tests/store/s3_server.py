"""An S3 server on loopback, in a thread of the test's process: moto's, behind a door that counts
the requests and can be told to fail."""

import atexit
import functools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
Asked = tuple[str, str]
"""Method, or LIST, and path."""


def _nothing(method: str, path: str) -> str | None:
    return None


class S3Server:
    """Its address, and what was asked of it."""

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.requests: list[Asked] = []
        self.refuse = _nothing
        """Called with a request's method and path: the status that it gets in place of what it
        asks, or None."""
        self.lose = _nothing
        """Likewise, in place of the answer, once what it asks is done."""
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """What a client is to find in its environment."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.port}"}

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @contextmanager
    def counted(self) -> Iterator[list[Asked]]:
        """The requests that come meanwhile."""
        before, found = len(self.requests), []
        yield found
        found += self.requests[before:]

    def obey(self) -> None:
        """Fail no more."""
        self.refuse = self.lose = _nothing

    def _serve(self, environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environment["REQUEST_METHOD"], environment["PATH_INFO"]
        self.requests.append(
            ("LIST" if "list-type" in environment["QUERY_STRING"] else method, path)
        )
        status = self.refuse(method, path)
        if status is None:
            status = self.lose(method, path)
            if status is None:
                return self._moto(environment, start)
            list(self._moto(environment, lambda *_: None))
        else:
            environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
        start(status, [("Content-Length", "0")])
        return [b""]


@functools.cache
def _server() -> S3Server:
    """One for all tests of a process: clients remember where theirs is."""
    server = S3Server()
    atexit.register(server.close)
    return server


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """The server, where this process's clients find it; it has an empty bucket, s3://bucket."""
    import fsspec

    server = _server()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    files = fsspec.filesystem("s3", use_listings_cache=False)
    files.mkdir("s3://bucket")
    yield server
    server.obey()
    files.rm("s3://bucket", recursive=True)
