"""Runs compiler checks over many files in parallel, and remembers which have passed.

A check that has passed is not run again until its command, its program, or a file of the project that it sees has
changed. The memory is a folder of empty files (tools/kept.py), that may be deleted at any time.
"""

import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

import kept

MOST_COMMITS = 40  # a change is, where nobody knows what was checked last


@dataclasses.dataclass
class Check:
    """`command`, run at the root of the project, about `path`; it passes with exit status 0."""
    path: str
    command: list
    together: tuple = ()  # the sources that `path` includes, where it was made for this check


def compile_flags(root, build):
    """Include paths, definitions and warnings of each source that CMake knows, by path from the root: what a check sees, and
    not how code is made of it.

    Without precompiled headers: a source includes what it needs."""
    database = pathlib.Path(root, build, "compile_commands.json")
    if not database.exists():
        sys.exit(f"{database} is not there: run `cmake --preset {pathlib.Path(build).name}` first")
    flags = {}
    for entry in json.loads(database.read_text()):
        words, flags_of = shlex.split(entry["command"]), []
        for i, word in enumerate(words):
            if word == "-isystem" or word == "-include" and not words[i + 1].endswith("cmake_pch.hxx"):
                flags_of += words[i:i + 2]
            elif word in ("-Winvalid-pch", "-DFMT_SHARED"):
                continue
            elif word.startswith(("-I", "-D", "-std=", "-W", "-pthread")):
                flags_of.append(word)
        flags[os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)] = flags_of
    return flags


def _git(root, *words):
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else None


def changed(sources):
    """The sources that have changed since the commit that all checks passed last, with those that include what has; None for
    all of them: in what is no checkout. Where no such commit is known, since the last few commits: what is older has been
    looked at when it was a change."""
    last = kept.folder() / "checked"
    since = last.read_text().strip() if last.exists() else ""
    if not since or _git(sources.root, "merge-base", "--is-ancestor", since, "HEAD") is None:
        commits = _git(sources.root, "rev-list", "--first-parent", f"--max-count={MOST_COMMITS + 1}", "HEAD")
        if not commits:
            return None
        since = commits[-1]
    names = _git(sources.root, "diff", "--name-only", since)
    new = _git(sources.root, "ls-files", "--others", "--exclude-standard")
    if names is None or new is None or ".clang-tidy" in names:
        return None
    return {path for path in sources.text if not sources.closure(path).isdisjoint(names + new)}


def passed(root):
    """All checks passed on what is there: remembers the commit, if it is one."""
    if _git(root, "status", "--porcelain") == []:
        (kept.folder() / "checked").write_text(_git(root, "rev-parse", "HEAD")[0])


def _version_of(tool):
    try:
        return subprocess.run([tool, "--version"], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        sys.exit(f"{tool} does not run; it is in packages.txt (tools/setup debian)")


def run(sources, checks, workers, also=(), quiet=False):
    """Runs what is not known to pass and prints what fails, unless `quiet`. Returns the checks that fail.

    `also`: names of further files whose content decides, e.g. a configuration.
    """
    memory = (kept.folder() if sources.root == kept.ROOT else sources.root / ".cache") / "checks"
    memory.mkdir(parents=True, exist_ok=True)
    digests = {path: hashlib.sha256(text.encode()).digest() for path, text in sources.text.items()}
    common = hashlib.sha256()
    for tool in sorted({check.command[0] for check in checks}):
        common.update(_version_of(tool))
    for name in also:
        common.update((sources.root / name).read_bytes())

    todo = []
    for check in checks:
        key = common.copy()
        key.update(repr(check.command).replace(str(sources.root), "").encode())
        for part in sorted(set().union(*map(sources.closure, check.together or [check.path]))):
            key.update(part.encode() + digests[part])
        mark = memory / key.hexdigest()
        if not mark.exists():
            todo.append((check, mark))

    def run_one(item):
        check, mark = item
        done = subprocess.run(check.command, cwd=sources.root, text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode == 0:
            mark.touch()
        return check, done

    failures = []
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for check, done in pool.map(run_one, todo):
            if done.returncode == 0:
                continue
            failures.append(check)
            if not quiet:
                print(f"{check.path}: failed: {shlex.join(check.command)}\n{done.stdout.strip()}\n", flush=True)
    if not quiet or not failures:
        print(f"{len(checks)} checks: {len(checks) - len(todo)} known to pass, {len(todo) - len(failures)} passed now, "
              f"{len(failures)} failed", flush=True)
    return failures
