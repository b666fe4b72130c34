"""stretto.compare(), in a script and in a notebook."""

from __future__ import annotations

import builtins
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

import stretto
from stretto._compare import Comparison, Run

TRAIN = """
import os

import stretto
import torch


def train():
    torch.set_num_threads(1)
    torch.manual_seed(int(os.environ["STRETTO_SEED"]))
    model = torch.nn.Linear(4, 1)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.01), model, "local", max_lag=2)
    for _ in range(12):
        optimizer.zero_grad()
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
    optimizer.finish()
    return 0.5 + stretto.rank()
"""


def run(algorithm: str, seconds: float, metric: float | None = 0.25, **others: Any) -> Run:
    steps = [[(0.0, 0.5, 0.0), (0.75, 0.5, 0.25)], [(0.0, 0.75, 0.0)]]
    values: dict[str, Any] = {
        "algorithm": algorithm,
        "seed": 1,
        "metric": metric,
        "batches": 60,
        "seconds": seconds,
        "staleness_mean": 0.5,
        "staleness_max": 3,
        "computed": 6.0,
        "waited": 2.0,
        "lost_deposits": 0,
        "replicas_identical": True,
        "last_steps": steps,
    }
    return Run(**{**values, **others})


def comparison(**others: Any) -> Comparison:
    runs = {
        "sync": [run("sync", 6.0), run("sync", 12.0), run("sync", 10.0)],
        "eager-quorum": [run("eager-quorum", 3.0, **others), run("eager-quorum", 3.0, 0.75), run("eager-quorum", 4.0)],
    }
    return Comparison(runs, 2, "persistent:rank=1,factor=3")


def test_the_table_has_medians_and_spreads() -> None:
    first, second = comparison().table
    assert [first["batches_per_second" + end] for end in ("", "_low", "_high")] == [6, 5, 10]
    assert second["speedup"] == 2.5 and (second["speedup_low"], second["speedup_high"]) == (2, 4)  # run by run
    assert first["metric_deviation"] == 0 and second["metric"] == pytest.approx(5 / 12)
    assert second["waiting"] == 0.25 and second["replicas_identical"] and second["staleness_max"] == 3
    text = str(comparison())
    assert "2 ranks, 3 runs of each algorithm; injected: persistent:rank=1,factor=3" in text
    assert re.search(r"^sync +6 \(5–10\) +1× +0.25 ± 0 +0.50, max 3 +25 % +identical$", text, re.MULTILINE)
    assert re.search(r"^eager-quorum +20 \(15–20\) +2.5 \(2–4\)× +0.4167 ± 0.29 ", text, re.MULTILINE)


def test_a_broken_promise_is_said() -> None:
    text = str(comparison(replicas_identical=False, lost_deposits=2))
    assert "DIFFER" in text and "gradients were lost under eager-quorum" in text


def test_without_a_metric_there_is_no_column() -> None:
    alone = Comparison({"sync": [run("sync", 6.0, None)]}, 2, "none")
    assert "metric" not in str(alone) and "nothing injected" in str(alone) and "Medians" not in str(alone)
    assert alone.table[0]["metric"] is None


def test_dict_and_csv(tmp_path: pathlib.Path) -> None:
    data = json.loads(json.dumps(comparison().to_dict()))
    assert [(one["algorithm"], one["throughput"]) for one in data["runs"]][:2] == [("sync", 10.0), ("sync", 5.0)]
    comparison().to_csv(tmp_path / "runs.csv")
    with open(tmp_path / "runs.csv", newline="", encoding="utf-8") as file:
        assert [row["seconds"] for row in csv.DictReader(file)] == ["6.0", "12.0", "10.0", "3.0", "3.0", "4.0"]


def test_the_page_has_pictures() -> None:
    page = comparison()._repr_html_()
    pictures = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]
    labels = [picture.get("aria-label") for picture in pictures]
    assert labels == ["Batches applied a second", "sync: the last steps", "eager-quorum: the last steps"]
    assert "<script" not in page


def test_plot_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(stretto.UsageError, match="plot.. draws with matplotlib, which is not installed"):
        comparison().plot()


def test_plot_draws() -> None:
    pytest.importorskip("matplotlib")
    figure = comparison().plot()
    bars, metric = figure.axes
    assert [patch.get_height() for patch in bars.patches] == [6, 20]
    assert metric.get_ylabel() == "metric"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"algorithms": "sync"}, "expected a list of names"),
        ({"algorithms": []}, "expected a list of names"),
        ({"algorithms": ["sync", "sync"]}, "expected each one once"),
        ({"algorithms": ["sync", "egaer-solo"]}, "did you mean eager-solo"),
        ({"algorithms": ["eager-quorum:5"]}, "quorum"),
        ({"ranks": 0}, r"compare\(ranks=0\)"),
        ({"repeat": 0}, r"compare\(repeat=0\)"),
        ({"imbalance": "persistant"}, "imbalance 'persistant': expected none, random"),
        ({"imbalance": "persistent:rank=4,factor=2"}, "rank"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_is(arguments: dict[str, Any], said: str) -> None:
    def never() -> float:
        raise AssertionError

    with pytest.raises(stretto.UsageError, match=said):
        stretto.compare(never, **{"algorithms": ["sync"], **arguments})


def script(folder: pathlib.Path, content: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(content, encoding="utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, path]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)


def test_a_script_compares(tmp_path: pathlib.Path) -> None:
    compare = """
if __name__ == "__main__":
    import json
    result = stretto.compare(train, ["sync", "eager-quorum"], ranks=2, imbalance="persistent:rank=1,delay=2ms")
    assert "STRETTO_ALGORITHM" not in os.environ
    print(result)
    print(json.dumps(result.to_dict()))
    lanes = [len(steps) for runs in result.runs.values() for steps in runs[0].last_steps]
    assert lanes == [12] * 4, lanes
"""
    ended = script(tmp_path, TRAIN + compare)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    data = json.loads(ended.stdout.splitlines()[-1])
    assert data["imbalance"] == "persistent:rank=1,delay=2ms"
    for one, algorithm in zip(data["runs"], ("sync", "eager-quorum")):
        assert one["algorithm"] == algorithm and one["batches"] == 24 and one["seed"] == 1
        assert one["metric"] == 1.0  # the mean of 0.5 and 1.5
        assert one["replicas_identical"] and one["lost_deposits"] == 0
        assert one["computed"] >= 12 * 0.002 and one["staleness_max"] <= 2
    assert data["runs"][0]["staleness_max"] == 0  # the algorithm that `train` names is overridden


def test_an_error_says_where(tmp_path: pathlib.Path) -> None:
    fails = """
def fails():
    if os.environ["STRETTO_ALGORITHM"] == "eager-solo" and os.environ["RANK"] == "1":
        raise ValueError("out of words")
    return None


def nothing():
    return 1


def words():
    return "words"


if __name__ == "__main__":
    for fn, algorithm in ((fails, "eager-solo"), (nothing, "sync"), (words, "sync")):
        try:
            stretto.compare(fn, [algorithm], ranks=2)
        except stretto.Error as error:
            print(type(error).__name__, error.rank, error)
"""
    ended = script(tmp_path, "import os\nimport stretto\n" + fails)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    first, second, third = ended.stdout.splitlines()
    assert first == "Error 1 under eager-solo, rank 1: ValueError: out of words"
    assert second.startswith("UsageError None under sync the function has made no stretto.Optimizer")
    assert re.match(r"UsageError [01] under sync, rank [01]: the function returned 'words': expected a number", third)


def test_a_notebook_shows_pictures(tmp_path: pathlib.Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cells = [TRAIN.strip(), 'stretto.compare(train, ["sync", "eager-quorum"], ranks=2)']
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    (output,) = [out for out in notebook.cells[1].outputs if out.output_type == "execute_result"]
    assert output.data["text/html"].count("<svg") == 3
    assert output.data["text/html"].count("identical") == 2
    assert "comparison of sync, eager-quorum on 2 ranks" in output.data["text/plain"]
