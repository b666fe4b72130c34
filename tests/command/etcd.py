"""An etcd of one member on this host, with its data in a folder of its own; a test that needs one skips where there is none."""

import pathlib
import shutil
import socket
import subprocess
import tempfile
import unittest
import urllib.request

from program import wait_until


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Etcd:
    def __init__(self):
        if shutil.which("etcd") is None:
            raise unittest.SkipTest("there is no etcd")
        self.folder = tempfile.TemporaryDirectory()
        self.server, self.peer = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.process = None
        self.start()

    def start(self):
        urls = ["--listen-client-urls", f"http://{self.server}", "--advertise-client-urls", f"http://{self.server}",
                "--listen-peer-urls", f"http://{self.peer}", "--initial-advertise-peer-urls", f"http://{self.peer}",
                "--initial-cluster", f"default=http://{self.peer}"]
        with pathlib.Path(self.folder.name, "log").open("ab") as log:
            self.process = subprocess.Popen(["etcd", "--data-dir", f"{self.folder.name}/data", *urls], stdout=log, stderr=log)
        wait_until(self.answers)

    def answers(self):
        try:
            with urllib.request.urlopen(f"http://{self.server}/health", timeout=1) as answer:
                return b"true" in answer.read()
        except OSError:
            return False

    def register(self, name):
        return f"etcd://{self.server}/{name}"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.folder.cleanup()
