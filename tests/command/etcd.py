"""An etcd of one member or several on this host, with its data in folders of its own; a test that needs one skips where there is none."""

import base64
import contextlib
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest
import urllib.request

from program import wait_until


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Etcd:
    def __init__(self, nodes=1):
        if shutil.which("etcd") is None:
            raise unittest.SkipTest("there is no etcd")
        self.folder = tempfile.TemporaryDirectory()
        self.servers, self.peers = ([f"127.0.0.1:{free_port()}" for _ in range(nodes)] for _ in range(2))
        self.processes = [None] * nodes
        self.start()

    def start(self):
        cluster = ",".join(f"node{node}=http://{peer}" for node, peer in enumerate(self.peers))
        for node, (server, peer) in enumerate(zip(self.servers, self.peers)):
            urls = ["--listen-client-urls", f"http://{server}", "--advertise-client-urls", f"http://{server}",
                    "--listen-peer-urls", f"http://{peer}", "--initial-advertise-peer-urls", f"http://{peer}",
                    "--initial-cluster", cluster]
            with pathlib.Path(self.folder.name, f"log{node}").open("ab") as log:
                self.processes[node] = subprocess.Popen(["etcd", "--name", f"node{node}", "--data-dir", f"{self.folder.name}/data{node}",
                                                         *urls], stdout=log, stderr=log)
        wait_until(self.answers)

    def answers(self):
        try:
            for server in self.servers:
                with urllib.request.urlopen(f"http://{server}/health", timeout=1) as answer:
                    if b"true" not in answer.read():
                        return False
            return True
        except OSError:
            return False

    def read(self, key):
        """The value of a key, and how often it has been written since it is there."""
        with contextlib.suppress(OSError):
            for found in self.ask("kv/range", key=base64.b64encode(key.encode()).decode()).get("kvs", []):
                return base64.b64decode(found.get("value", "")).decode(), int(found["version"])
        return "", 0

    def ask(self, what, **words):
        """The answer of its gateway, as JSON."""
        with urllib.request.urlopen(f"http://{self.servers[0]}/v3/{what}", json.dumps(words).encode(), timeout=5) as answer:
            return json.load(answer)

    def want_a_password(self):
        self.ask("auth/user/add", name="root", password="a password")
        self.ask("auth/user/grant", user="root", role="root")
        self.ask("auth/enable")

    def register(self, name, servers=None):
        return f"etcd://{','.join(servers or self.servers)}/{name}"

    def signal(self, number):
        for process in self.processes:
            process.send_signal(number)

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.folder.cleanup()


class Forwarder:
    """A way to a server of this host, which can be cut: what is on it then is lost without a word, and nobody is let in."""

    def __init__(self, server):
        host, port = server.split(":")
        self._server, self._is_cut, self._sockets = (host, int(port)), False, []
        self._door = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._door.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._door.accept()
                try:
                    server = socket.create_connection(self._server)
                except OSError:  # as the client is to find it
                    client.close()
                    continue
                self._sockets += [client, server]
                for pair in (client, server), (server, client):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not self._is_cut:
                    target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def cut(self, does=True):
        self._is_cut = does

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._door.close()
        for one in self._sockets:
            one.close()
