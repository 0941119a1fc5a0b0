"""Processes that start at once and share a cache download a model once; the hub is a server of this test."""

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from conftest import MODELS, TOLERANCE, shared_scorer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CODE = (
    "from bertscore_metric import score\n"
    "print(score(['the cat sat'], ['a dog sat'], 'someone/tiny', num_layers=2).mean.f1)"
)


class Hub(BaseHTTPRequestHandler):
    """Hands out the files of the tiny BERT as the hub does, weights slowly, and counts."""

    downloads: ClassVar[Counter[str]] = Counter()

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        name = self.path.partition("?")[0].rpartition("/")[2]
        file = MODELS / "bert" / name
        known = "/resolve/" in self.path and file.is_file()
        data = file.read_bytes() if known else json.dumps({"error": "Entry not found"}).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Repo-Commit", COMMIT)
        if known:
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        else:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.end_headers()
        if body and known:
            Hub.downloads[name] += 1
            if name == "model.safetensors":
                time.sleep(1)
        if body:
            self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub() -> Iterator[str]:
    """Return the address of a hub that serves for the test."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_ranks_download_once(hub: str, tmp_path: Path) -> None:
    """Two ranks get whole weights, each file is downloaded by one of them, and the other one waits for it."""
    processes = []
    for rank in range(2):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        environment.update(
            HF_ENDPOINT=hub, HF_HOME=str(tmp_path), HF_HUB_DISABLE_XET="1", no_proxy="*",
            RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2",
        )  # fmt: skip
        processes.append(
            subprocess.Popen([sys.executable, "-W", "ignore", "-c", CODE], env=environment, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        )  # fmt: skip
    said = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    expected = shared_scorer("bert", num_layers=2).score(["the cat sat"], ["a dog sat"]).mean.f1
    assert [float(out) for out, _ in said] == pytest.approx([expected, expected], abs=TOLERANCE)
    assert Hub.downloads["model.safetensors"] == 1
    assert set(Hub.downloads.values()) == {1}, Hub.downloads
