"""The Python of docs/python.md and docs/python/ runs, on two ranks.

A block that begins with the name of a file is part of that file, which another test runs. The other blocks of a section
run one after the other; each section finds `model`, `sgd`, `loader` and `path` ready.
"""

import logging
import pathlib
import re

from ranks import values

ROOT = pathlib.Path(__file__).parents[3]
PAGES = [ROOT / "docs/python.md", *sorted((ROOT / "docs/python").glob("*.md"))]
PREAMBLE = """
import torch
import stretto
torch.manual_seed(stretto.rank())
model = torch.nn.Sequential(torch.nn.Linear(10, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loader = [(x, (x.sum(1) > 0).long()) for x in torch.randn(12, 8, 10)]

class schedulefree:  # stands for the package
    class SGDScheduleFree(torch.optim.SGD):
        def train(self):
            self.averages = [p.clone() for group in self.param_groups for p in group["params"]]
        def eval(self):
            with torch.no_grad():
                for p, average in zip(self.param_groups[0]["params"], self.averages):
                    p.lerp_(average, 0.5)
"""


def sections():
    """Heading and blocks, each a page, a line number and a text."""
    found = {}
    for page in PAGES:
        heading, line = "", 0
        for part in re.split(r"(^```\w*\n.*?^```\n)", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL):
            block = re.fullmatch(r"```python\n(.*)```\n", part, flags=re.DOTALL)
            if block:
                found.setdefault(heading, []).append((page, line + 1, block[1]))
            elif not part.startswith("```"):
                heading = ([heading] + re.findall(r"^##? (.*)$", part, flags=re.MULTILINE))[-1]
            line += part.count("\n")
    return found


def is_of_a_file(block):
    return re.match(r"# \S+/\S+\n", block) is not None


def run_sections(folder):
    import torch

    import stretto

    logging.basicConfig(level=logging.WARNING)
    replicas = {}
    for heading, blocks in sections().items():
        own = [block for block in blocks if not is_of_a_file(block[-1])]
        if not own:
            continue
        names = {"__name__": "docs", "path": f"{folder}/{len(replicas)}.pt"}
        exec(PREAMBLE, names)
        for page, line, text in own:
            exec(compile("\n" * line + text, str(page), "exec"), names)
        optimizer = names.get("optimizer")
        if isinstance(optimizer, stretto.Optimizer):
            weights = torch.cat([p.detach().flatten() for p in names["model"].parameters()])
            replicas[heading] = (optimizer.batches_applied, weights.numpy().tobytes())
    return replicas


def test_every_block_runs_and_replicas_are_equal(tmp_path):
    first, second = values(run_sections, ranks=2, timeout=120, args=(str(tmp_path),))
    assert first == second
    applied = {heading: batches for heading, (batches, _) in first.items()}
    assert applied["Averaged gradients"] == 2 * 12
    assert applied["Habits of other scripts"] == 2 * 12
    assert applied["Overlap"] == 2 * 6
    assert applied["Learning rates"] == 2 * 12
    assert applied["Rates by hand"] == 2 * 12
    assert applied["Reports and comparisons"] == 2 * 12
    assert applied["Uneven loaders"] == 3
    assert applied["What deadlocks"] == 2 * 2 * 12


def test_blocks_of_files_are_found():
    named = [text.split("\n")[0] for blocks in sections().values() for *_, text in blocks if is_of_a_file(text)]
    assert "# examples/python/five_lines.py" in named
