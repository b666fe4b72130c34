"""Runs the program under test, the first argument of each test file."""

import pathlib
import subprocess
import sys
import time
import unittest

STRETTO = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
TIMEOUT = 600


def stretto(*arguments, program=None, **options):
    """The finished process, with its output as text."""
    return subprocess.run([str(program or STRETTO), *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, check=False, **options)


def every_command(*group):
    """The words of each command, as --help of the program and its groups names them."""
    for line in stretto(*group, "--help").stdout.split("\nCommands:\n")[1].split("\n\n")[0].splitlines():
        if line[2] != " ":  # not the text of the one before
            command = (*group, *line[2:].split("  ")[0].split())
            text = stretto(*command, "--help").stdout
            if "\nCommands:\n" in text:
                yield from every_command(*command)
            else:
                yield command


def children_of(pid):
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(word) for word in text.split()]


def members_of(launcher):
    """The processes of a launcher that are ranks, by their numbers as members."""
    members = {}
    for process in children_of(launcher.pid):
        try:
            environment = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for entry in environment:  # its guard has none
            if entry.startswith(b"STRETTO_MEMBER="):
                members[int(entry.split(b"/")[1])] = process
    return members


def wait_until(condition):
    """Polls for half a minute; the test's own watchdog."""
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not happen")
        time.sleep(0.01)


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split(")")[-1].split()[0] != "Z"
    except OSError:
        return False


class ProgramTest(unittest.TestCase):
    def assert_succeeds(self, result):
        self.assertEqual(result.returncode, 0, f"{result.args}\n{result.stdout}\n{result.stderr}")

    def assert_rejected(self, result, *parts, code=2):
        """One line on standard error that has all of `parts`, and nothing on standard output."""
        self.assertEqual(result.returncode, code, f"{result.args}\n{result.stderr}")
        self.assertEqual(result.stdout, "")
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        for part in parts:
            self.assertIn(part, lines[0])


def main():
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)  # names what it skips (tools/run_tests)
