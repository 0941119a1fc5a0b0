"""The Space as people use it: its own process, and Debian's chromium in front of it."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parent.parent
CHROMIUM = shutil.which("chromium")
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
_PATIENCE = 120  # seconds; torch, transformers and gradio take their time on a busy machine


@contextmanager
def running_space() -> Iterator[str]:
    """Run hub_card/app.py without a network for the model; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    settings = {
        "GRADIO_SERVER_PORT": str(port),
        "GRADIO_SERVER_NAME": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join([*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(ROOT)]),
    }
    command = [sys.executable, str(ROOT / "hub_card" / "app.py")]
    with subprocess.Popen(command, env={**os.environ, "HF_HUB_OFFLINE": "1", **settings}) as process:
        try:
            for _ in range(2 * _PATIENCE):
                if process.poll() is not None:
                    raise RuntimeError(f"The Space ended with {process.returncode} before it answered.")
                try:
                    urllib.request.urlopen(address, timeout=_PATIENCE).close()
                    break
                except URLError:
                    time.sleep(0.5)
            yield address
        finally:
            process.terminate()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the browser that the system has, without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
