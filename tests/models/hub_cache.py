"""The hub without a network: a cache folder that the test fills, and a server on this machine."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from huggingface_hub import constants

COMMIT = "0123456789abcdef0123456789abcdef01234567"
UNREACHABLE = "http://127.0.0.1:9"
"""Port 9 refuses: what a machine without a network looks like, at once."""


def snapshot_folder(cache: Path, repository: str, commit: str = COMMIT, ref: str = "main") -> Path:
    """The folder of a commit that `ref` names, as the hub's client lays it out, to be filled."""
    home = cache / f"models--{repository.replace('/', '--')}"
    folder = home / "snapshots" / commit
    folder.mkdir(parents=True)
    if ref:
        (home / "refs").mkdir(exist_ok=True)
        (home / "refs" / ref).write_text(commit)
    return folder


def use_hub(
    monkeypatch: pytest.MonkeyPatch,
    cache: Path,
    *,
    offline: bool = False,
    endpoint: str = UNREACHABLE,
) -> None:
    """Let the hub's client use `cache`, and no hub but the one at `endpoint`."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@dataclass
class SmallHub:
    """A hub of one repository with one commit, on its branch main."""

    repository: str
    folder: Path
    """The repository's files."""
    commit: str = COMMIT
    refusal: tuple[int, str] | None = None
    """The status and the X-Error-Code that every answer has."""
    asked: list[str] = field(default_factory=list)
    """The paths of all requests."""
    endpoint: str = ""

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        self.asked.append(path)
        if self.refusal is not None:
            return self.refusal[0], {"X-Error-Code": self.refusal[1]}, b"{}"
        api = f"/api/models/{self.repository}"
        if not path.startswith((api, f"/{self.repository}/")):
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        if path in (f"{api}/revision/{revision}" for revision in ("main", self.commit)):
            return 200, {}, json.dumps({"id": self.repository, "sha": self.commit}).encode()
        if path.startswith(f"{api}/tree/{self.commit}"):
            files = sorted(p for p in self.folder.rglob("*") if p.is_file())
            return 200, {}, json.dumps([self._entry(file) for file in files]).encode()
        name = path.removeprefix(f"/{self.repository}/resolve/{self.commit}/")
        if name != path and (self.folder / name).is_file():
            content = (self.folder / name).read_bytes()
            tag = f'"{hashlib.sha1(content).hexdigest()}"'
            return 200, {"X-Repo-Commit": self.commit, "ETag": tag}, content
        return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"

    def _entry(self, file: Path) -> dict[str, object]:
        content = file.read_bytes()
        return {
            "type": "file",
            "path": file.relative_to(self.folder).as_posix(),
            "size": len(content),
            "oid": hashlib.sha1(content).hexdigest(),
        }


@contextmanager
def serving(hub: SmallHub) -> Iterator[SmallHub]:
    """`hub` at an endpoint of this machine."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = hub.answer(self.path)
            self.send_response(status)
            for name, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        hub.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
