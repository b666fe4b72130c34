"""stretto.compare(): the same training by several algorithms, side by side. Knows no Torch."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import os
import pathlib
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import stretto._core as _core
from stretto import _pictures
from stretto._errors import Error, UsageError
from stretto._pictures import Step, aligned, significant
from stretto._spawn import spawn_with

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Run:
    """One training by one algorithm. Of several optimizers the first."""

    algorithm: str
    seed: int  # STRETTO_SEED of all its ranks
    metric: float | None  # what `fn` has returned, the mean over the ranks that have returned a number
    batches: int  # applied
    seconds: float  # from the first step to the last round
    staleness_mean: float
    staleness_max: int
    computed: float  # seconds, of all ranks together
    waited: float
    lost_deposits: int
    replicas_identical: bool
    last_steps: list[list[Step]] = dataclasses.field(repr=False)  # of each rank

    @property
    def throughput(self) -> float:
        """Batches applied a second."""
        return self.batches / self.seconds if self.seconds > 0 else 0.0

    @property
    def waiting(self) -> float:
        """Share of the ranks' time."""
        both = self.computed + self.waited
        return self.waited / both if both > 0 else 0.0


def compare(
    fn: Callable[[], float | None],
    algorithms: Sequence[str],
    ranks: int = 4,
    *,
    imbalance: str = "none",
    repeat: int = 1,
) -> Comparison:
    """Runs `fn()` on `ranks` ranks by each of the algorithms, `repeat` times, interleaved, and compares what that took.

    `fn` builds its own model and stretto.Optimizer, trains, and returns what it has come to: a loss, an accuracy. The
    algorithm it names is overridden (the environment variable STRETTO_ALGORITHM); STRETTO_SEED is 1 in the first run of
    each algorithm, 2 in the second, and so on. Ranks are processes, as spawn() starts them.

    `imbalance`: which ranks are slow, by sleeping in step(), as `stretto train --imbalance` has it: "none",
    "persistent:rank=3,factor=3", "random:ranks=1,delay=20ms", "rotate:5ms..40ms", "lognormal:mean=20ms,cv=1", sums with
    +. The table says that it is injected.

    Raises UsageError for what cannot be run, before anything is; the error of a rank with its `.rank`, its text with
    the algorithm's name.
    """
    if isinstance(algorithms, str) or not algorithms:
        raise UsageError(f"compare(algorithms={algorithms!r}): expected a list of names, as ['sync', 'eager-quorum']")
    if len(set(algorithms)) < len(algorithms):
        raise UsageError(f"compare(algorithms={list(algorithms)!r}): expected each one once")
    if not isinstance(ranks, int) or ranks < 1:
        raise UsageError(f"compare(ranks={ranks!r}): expected a number from 1 on")
    if not isinstance(repeat, int) or repeat < 1:
        raise UsageError(f"compare(repeat={repeat!r}): expected a number from 1 on")
    for algorithm in algorithms:
        _core.require_algorithm(algorithm, ranks)
    injected = _core.read_imbalance(imbalance, ranks)
    runs: dict[str, list[Run]] = {algorithm: [] for algorithm in algorithms}
    for number in range(repeat):
        first = number % len(algorithms)  # so that none of them is always the first
        for algorithm in [*algorithms[first:], *algorithms[:first]]:
            runs[algorithm].append(_run(fn, algorithm, ranks, injected, seed=1 + number))
    return Comparison(runs, ranks, injected)


class Comparison:
    """What compare() has seen. print() shows a table, a notebook the same with pictures."""

    def __init__(self, runs: Mapping[str, Sequence[Run]], ranks: int, imbalance: str) -> None:
        self.runs = {algorithm: list(of_one) for algorithm, of_one in runs.items()}
        self.ranks = ranks
        self.imbalance = imbalance

    @property
    def table(self) -> list[dict[str, Any]]:
        """A row an algorithm: medians over its runs, and where a name ends so `_low` and `_high`; `speedup` is over the
        first algorithm, run by run; mean and standard deviation of the metric, None where there is none.
        """
        return [self._row(algorithm) for algorithm in self.runs]

    def _row(self, algorithm: str) -> dict[str, Any]:
        runs = self.runs[algorithm]
        base = next(iter(self.runs.values()))
        throughput = [run.throughput for run in runs]
        speedup = [_ratio(run.throughput, other.throughput) for run, other in zip(runs, base)]
        metric = [run.metric for run in runs if run.metric is not None]
        return {
            "algorithm": algorithm,
            "batches_per_second": statistics.median(throughput),
            "batches_per_second_low": min(throughput),
            "batches_per_second_high": max(throughput),
            "speedup": statistics.median(speedup),
            "speedup_low": min(speedup),
            "speedup_high": max(speedup),
            "metric": statistics.fmean(metric) if metric else None,
            "metric_deviation": statistics.stdev(metric) if len(metric) > 1 else None,
            "staleness_mean": statistics.fmean(run.staleness_mean for run in runs),
            "staleness_max": max(run.staleness_max for run in runs),
            "waiting": statistics.median(run.waiting for run in runs),
            "replicas_identical": all(run.replicas_identical for run in runs),
            "lost_deposits": sum(run.lost_deposits for run in runs),
        }

    def to_dict(self) -> dict[str, Any]:
        """Ranks, what was injected, the table, and all runs."""
        runs = [
            {k: v for k, v in dataclasses.asdict(run).items() if k != "last_steps"} | {"throughput": run.throughput}
            for of_one in self.runs.values()
            for run in of_one
        ]
        return {"ranks": self.ranks, "imbalance": self.imbalance, "table": self.table, "runs": runs}

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Writes all runs: a row a run, with a head."""
        runs = self.to_dict()["runs"]
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(runs[0]))
            writer.writeheader()
            writer.writerows(runs)

    def __str__(self) -> str:
        return "\n".join([self._headline(), "", *aligned(*self._cells()), *self._notes()])

    def __repr__(self) -> str:
        return f"<stretto comparison of {', '.join(self.runs)} on {self.ranks} ranks>"

    def _repr_html_(self) -> str:
        values = [
            (row["algorithm"], row["batches_per_second"], f"{significant(row['batches_per_second'])} batches/s")
            for row in self.table
        ]
        parts = [_pictures.paragraph(self._headline()), _pictures.table(*self._cells())]
        parts += [_pictures.paragraph(note) for note in self._notes()]
        parts.append(_pictures.bars(values, "Batches applied a second"))
        for algorithm in self._shown():
            lanes = [(f"rank {rank}", steps) for rank, steps in enumerate(self.runs[algorithm][0].last_steps[:16])]
            parts.append(_pictures.time_lines(lanes, f"{algorithm}: the last steps"))
        return f"<div>{''.join(parts)}</div>"

    def _shown(self) -> list[str]:
        """The first algorithm, and the fastest of the others."""
        first, *others = self.table
        best = max(others, key=lambda row: float(row["batches_per_second"]), default=None)
        return [row["algorithm"] for row in (first, best) if row is not None]

    def plot(self) -> Figure:
        """A figure of matplotlib: batches a second by algorithm, and the metric where there is one."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise UsageError(
                "plot() draws with matplotlib, which is not installed: expected `pip install matplotlib`; a notebook "
                "shows pictures of a comparison without it"
            ) from None
        rows = self.table
        names = [row["algorithm"] for row in rows]
        metric = any(row["metric"] is not None for row in rows)
        figure = Figure(figsize=(10 if metric else 5.5, 3.5), layout="constrained")
        left, *right = figure.subplots(1, 2 if metric else 1, squeeze=False)[0]
        middle = [row["batches_per_second"] for row in rows]
        below = [row["batches_per_second"] - row["batches_per_second_low"] for row in rows]
        above = [row["batches_per_second_high"] - row["batches_per_second"] for row in rows]
        left.bar(names, middle, yerr=[below, above], capsize=4)
        left.set_ylabel("batches applied a second")
        for axes in right:
            axes.errorbar(
                names,
                [math.nan if row["metric"] is None else row["metric"] for row in rows],
                yerr=[row["metric_deviation"] or 0.0 for row in rows],
                fmt="o",
                capsize=4,
            )
            axes.set_ylabel("metric")
        for axes in (left, *right):
            axes.tick_params(axis="x", rotation=20)
        figure.suptitle(self._headline())
        return figure

    def _headline(self) -> str:
        number = len(next(iter(self.runs.values())))
        slow = "nothing injected" if self.imbalance == "none" else f"injected: {self.imbalance}"
        return f"{self.ranks} ranks, {number} {'runs' if number > 1 else 'run'} of each algorithm; {slow}"

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        rows = self.table
        metric = any(row["metric"] is not None for row in rows)
        middle = ["metric"] if metric else []
        head = ["algorithm", "batches/s", "speed-up", *middle, "staleness", "waiting", "replicas"]
        cells = []
        for row in rows:
            line = [row["algorithm"], _range(row, "batches_per_second"), _range(row, "speedup") + "×"]
            if metric:
                line.append(_with_deviation(row["metric"], row["metric_deviation"]))
            line.append(f"{row['staleness_mean']:.2f}, max {row['staleness_max']}")
            line.append(f"{100 * row['waiting']:.0f} %")
            line.append("identical" if row["replicas_identical"] else "DIFFER")
            cells.append(line)
        return head, cells

    def _notes(self) -> list[str]:
        notes = []
        if len(next(iter(self.runs.values()))) > 1:
            notes.append("Medians over the runs (lowest to highest); the metric: mean ± standard deviation.")
        cores = len(os.sched_getaffinity(0))
        if self.ranks > cores:
            notes.append(f"{self.ranks} ranks on {cores} cores: ranks wait for cores as well as for each other.")
        lost = [row["algorithm"] for row in self.table if row["lost_deposits"]]
        if lost:
            notes.append(f"A promise is broken: gradients were lost under {', '.join(lost)}.")
        return notes


def _range(row: Mapping[str, Any], name: str) -> str:
    middle, low, high = (significant(row[name + end]) for end in ("", "_low", "_high"))
    return middle if low == high else f"{middle} ({low}–{high})"


def _with_deviation(mean: float | None, deviation: float | None) -> str:
    if mean is None:
        return ""
    return f"{mean:.4g}" if deviation is None else f"{mean:.4g} ± {deviation:.2g}"


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan


def _run(fn: Callable[[], float | None], algorithm: str, ranks: int, imbalance: str, seed: int) -> Run:
    with tempfile.TemporaryDirectory(prefix="stretto-compare-") as folder:
        variables = {
            "STRETTO_ALGORITHM": algorithm,
            "STRETTO_SEED": str(seed),
            "STRETTO_IMBALANCE": imbalance,
            "STRETTO_OUT": folder,
        }
        try:
            metric = run_on_ranks(_call, (fn,), ranks, variables)
        except Exception as error:
            raise _told(error, algorithm) from error
        optimizer = pathlib.Path(folder, "optimizer-0")
        report = _report_in(optimizer, algorithm)
        last_steps = [_last_steps(optimizer, rank) for rank in range(ranks)]
    known: dict[str, Any] = {one.name: report[one.name] for one in dataclasses.fields(Run) if one.name in report}
    known.update(algorithm=algorithm, seed=seed, metric=metric, last_steps=last_steps)
    return Run(**known)


def _call(rank: int, fn: Callable[[], float | None]) -> float | None:
    """On each rank."""
    return number_of(fn())


def number_of(metric: Any) -> float | None:
    """What a rank has come to, as a number; also that of a tensor."""
    if metric is None:
        return None
    try:
        return float(metric)
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(f"the function returned {metric!r}: expected a number, as a loss, or None") from None


def run_on_ranks(
    call: Callable[..., float | None], args: Sequence[Any], ranks: int, variables: Mapping[str, str]
) -> float | None:
    """One run, as spawn_with() makes it: the mean over the ranks that have returned a number; None where none has."""
    numbers = [metric for metric in spawn_with(variables, call, args, ranks) if metric is not None]
    return statistics.fmean(numbers) if numbers else None


def text_of(error: Exception) -> str:
    """What an error says, and of which rank: "rank 1: ValueError: out of words"."""
    rank = getattr(error, "rank", None)
    text = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    return text if rank is None else f"rank {rank}: {text}"


def _told(error: Exception, algorithm: str) -> Error:
    """The error of a rank, which says under which algorithm it came."""
    rank = getattr(error, "rank", None)
    kind = type(error) if isinstance(error, Error) else Error
    told = kind(f"under {algorithm}{':' if rank is None else ','} {text_of(error)}")
    told.rank = rank
    return told


def _report_in(folder: pathlib.Path, algorithm: str) -> dict[str, Any]:
    path = folder / "report.json"
    if not path.exists():
        raise UsageError(
            f"under {algorithm} the function has made no stretto.Optimizer, or ended before it had finished: expected "
            "one that trains, and finish() or join() on every rank"
        )
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


def _last_steps(folder: pathlib.Path, rank: int) -> list[Step]:
    path = folder / f"records-{rank}.jsonl"
    if not path.exists():
        return []
    steps: list[Step] = []
    waited = 0.0  # after the step before: in a picture it stands before this one
    for line in path.read_text(encoding="utf-8").splitlines()[-64:]:
        record = json.loads(line)
        steps.append((record["begin"], record["computed"], waited))
        waited = record["waited"]
    return steps
