"""The project's C++ sources and what they include. Shared by the other tools."""

import pathlib
import re

ROOTS = ("stretto", "command", "workloads", "python", "microbench", "examples", "tests")
TORCH = ("torch/", "ATen/", "c10/", "caffe2/")  # what its headers start with
_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


class Sources:
    """The .h and .cc files below the root of a checkout, by their path from there."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.text = {}
        for folder in ROOTS:
            for path in sorted((self.root / folder).rglob("*")):
                if path.suffix in (".h", ".cc"):
                    self.text[str(path.relative_to(self.root))] = path.read_text()
        self._includes = {}

    def lists(self):
        """The text of all CMakeLists.txt: a source that none names is built nowhere."""
        return "\n".join(path.read_text() for folder in ROOTS
                         for path in sorted((self.root / folder).rglob("CMakeLists.txt")))

    def headers(self):
        return [path for path in self.text if path.endswith(".h")]

    def includes(self, path):
        """A list of (line number, own, name), one for each include; own: written in quotes."""
        if path not in self._includes:
            text = self.text[path]
            self._includes[path] = [(text.count("\n", 0, match.start(match.lastindex)) + 1,
                                     match.lastindex == 1, match.group(match.lastindex))
                                    for match in _INCLUDE.finditer(text)]
        return self._includes[path]

    def closure(self, path):
        """`path` and every file of the project that it includes, directly or not."""
        seen, todo = {path}, [path]
        while todo:
            for _, own, name in self.includes(todo.pop()):
                if own and name in self.text and name not in seen:
                    seen.add(name)
                    todo.append(name)
        return seen

    def sees(self, path, prefixes):
        """Whether `path` includes, directly or not, a foreign header that starts with one of `prefixes`."""
        return any(not own and name.startswith(prefixes)
                   for part in self.closure(path) for _, own, name in self.includes(part))
