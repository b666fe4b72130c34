"""Runs cells in a kernel, as a notebook does, and interrupts them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jupyter_client.manager import start_new_kernel
from traces import Traces


@dataclasses.dataclass
class Ran:
    """What a cell has shown."""

    text: str = ""  # written
    result: str = ""  # of its last line
    error: str = ""  # the name of the exception
    said: str = ""  # the exception's text


class Kernel:
    """As a context manager it leaves no process behind."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """`env`: the whole environment of the kernel's process, but for the mark of its traces."""
        self.traces = Traces()
        marked = {**env, **self.traces.environment}
        self._manager, self._client = start_new_kernel(kernel_name="python3", env=marked, startup_timeout=240)
        self._manager.shutdown_wait_time = 60  # the kernel ends by itself: then its atexit functions have run

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel()

    def run(self, code: str, on_text: Callable[[str], object] = lambda text: None, timeout: float = 400) -> Ran:
        """Runs a cell to its end. `on_text` hears all that the cell has written so far, whenever it writes."""
        ran = Ran()

        def hear(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                ran.text += content["text"]
                on_text(ran.text)
            elif message["msg_type"] == "execute_result":
                ran.result = content["data"]["text/plain"]

        reply = self._client.execute_interactive(code, output_hook=hear, timeout=timeout)["content"]
        if reply["status"] == "error":
            ran.error, ran.said = reply["ename"], reply["evalue"]
        return ran

    def run_and_interrupt(self, code: str, at: str) -> Ran:
        """Interrupts the cell when it has written `at`."""
        interrupted = False

        def interrupt(text: str) -> None:
            nonlocal interrupted
            if at in text and not interrupted:
                interrupted = True
                self._manager.interrupt_kernel()

        return self.run(code, interrupt)
