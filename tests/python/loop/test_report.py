"""stretto.Optimizer.report(): what it says, as text, picture, dict and CSV."""

from __future__ import annotations

import csv
import json
import pathlib
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

from ranks import values
from stretto._pictures import duration, significant
from stretto._report import Report


def account(lost: float, **others: Any) -> dict[str, Any]:
    return {
        "arrived": 9,
        "computed_seconds": 1.5,
        "fresh": 8,
        "late_seconds": 0.25,
        "lost_seconds": lost,
        "null": 1,
        "stale": 2,
        "waited_seconds": 0.5,
        **others,
    }


def content(**others: Any) -> str:
    ranks = [account(0.0), account(0.125), account(3.0, computed_seconds=6.0, waited_seconds=0.0)]
    ledger = {
        "rounds": 12,
        "empty_rounds": 0,
        "rounds_by_policy": {"quorum:2": 12},
        "batches": 30,
        "samples": 30,
        "seconds": 6.0,
        "staleness": {"mean": 0.5, "max": 4, "p99": 4, "histogram": [20, 5, 3, 0, 2]},
        "total": account(3.125),
        "ranks": ranks,
        "deposits": {"made": 30, "applied": 30, "dropped": 0, "pending": 0, "lost": 0},
    }
    given = {
        "algorithm": "eager-quorum",
        "rank": 1,
        "ranks": 3,
        "max_lag": 4,
        "imbalance": "none",
        "finished": True,
        "replicas_identical": True,
        "steps": 10,
        "deposits": 10,
        "estimate": {"sync_seconds": 18.0, "ideal_seconds": 4.5, "steps": 30},
        "holds": {"rounds": 2, "seconds": 0.75, "rank": 2, "longest": 0.5},
        "last_steps": [
            [[0.0, 0.5, 0.0], [0.75, 0.5, 0.25]],
            [[0.0, 0.5, 0.0], [0.75, 0.5, 0.25]],
            [[0.0, 1.25, 0.0]],
        ],
        "ledger": ledger,
    }
    return json.dumps({**given, **others})


def svgs(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(picture) for picture in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_the_text_says_who_costs_what() -> None:
    text = str(Report(content()))
    assert all(len(line) <= 80 for line in text.splitlines())
    flat = " ".join(text.split())
    for fact in (
        "eager-quorum on 3 ranks: 30 batches applied in 6 s, 5 a second",
        "12 rounds; staleness 0.50 on average, 4 at most",
        "2 6 s 0 s 0 % 3 s 8 2 1",
        "The others waited 3 s because of rank 2, 96 % of all waiting for somebody.",
        "sync would have taken 18 s, 3 times as long, and 4.5 s if no rank ever waited: estimates, from 30 measured",
        "Rank 2 holds the others: max_lag is the knob. Rank 1 waited 500 ms at most, and 750 ms in 2 rounds, for "
        "batches that were 4 rounds old.",
        "Deposits: 30 made, 30 applied, 0 pending, 0 lost.",
        "When last compared, all replicas were equal to the bit.",
        "as rank 1 knows it",
    ):
        assert fact in flat, fact


def test_hosts_are_named_where_there_are_several() -> None:
    report = Report(content(hosts=["h1", "h1", "h2"]))
    flat = " ".join(str(report).split())
    for fact in (
        "2 (h2) 6 s 0 s 0 % 3 s 8 2 1",
        "The others waited 3 s because of rank 2 (h2), 96 % of all waiting for somebody. "
        "Of the hosts h2 has cost the others most: 3 s, 96 % of all waiting for somebody.",
        "Rank 2 (h2) holds the others",
    ):
        assert fact in flat, fact
    assert [rank["host"] for rank in report.to_dict()["by_rank"]] == ["h1", "h1", "h2"]
    assert "rank 0 (h1)" in report._repr_html_()
    on_one = Report(content())
    assert "host" not in str(on_one) and "host" not in on_one.to_dict()["by_rank"][0]


def test_what_is_not_known_is_not_said() -> None:
    given = json.loads(content(estimate=None, holds=None, replicas_identical=None, finished=False))
    del given["ledger"]["deposits"]
    text = " ".join(str(Report(json.dumps(given))).split())
    assert "sync would" not in text and "max_lag" not in text and "replicas" not in text
    assert "Deposits: 10 of this rank." in text


def test_what_is_injected_is_said() -> None:
    assert "injected: persistent:rank=2,factor=3" in " ".join(
        str(Report(content(imbalance="persistent:rank=2,factor=3"))).split()
    )


def test_of_many_ranks_those_that_cost_most_have_a_row() -> None:
    given = json.loads(content(ranks=40))
    given["ledger"]["ranks"] = [account(lost=float(rank)) for rank in range(40)]
    given["last_steps"] = [[] for _ in range(40)]
    report = Report(json.dumps(given))
    rows = [line.split()[0] for line in str(report).splitlines() if re.match(r"\d+ .* ms", line)]
    assert rows == [str(rank) for rank in range(24, 40)]
    assert "… and 24 ranks that have cost the others less" in str(report)
    assert len(report.to_dict()["by_rank"]) == 40
    assert len(svgs(report._repr_html_())) == 1  # nobody has a step: no time lines


def test_the_page_needs_nothing_else() -> None:
    page = Report(content())._repr_html_()
    assert "<script" not in page
    assert re.findall(r"https?://[^\"]*", page) == ["http://www.w3.org/2000/svg"] * 2
    lines, histogram = svgs(page)
    name = "{http://www.w3.org/2000/svg}"
    titles = [title.text for title in lines.iter(f"{name}title")]
    assert titles.count("computes 500 ms") == 4 and titles.count("waits 250 ms") == 2
    assert titles.count("computes 1.25 s") == 1
    bars = [float(bar.get("width") or 0) for bar in histogram.findall(f"{name}rect")][1:]
    assert bars[0] == 4 * bars[1] and bars[3] == 0
    assert "max_lag is the knob" in page


def test_time_lines_lie_where_the_steps_were() -> None:
    name = "{http://www.w3.org/2000/svg}"
    lines, _ = svgs(Report(content())._repr_html_())
    shown = [
        (float(bar.get("x") or 0), float(bar.get("width") or 0), int(bar.get("y") or 0))
        for bar in lines.findall(f"{name}rect")
        if bar.find(f"{name}title") is not None
    ]
    second = 550 / 1.25  # the picture is so wide
    at = {(x, y): width for x, width, y in shown if width > 0}
    assert abs(at[(150.0, 28)] - 0.5 * second) < 0.01
    assert abs(at[(150 + 0.5 * second, 28)] - 0.25 * second) < 0.01  # waits
    assert abs(at[(150.0, 76)] - 1.25 * second) < 0.01  # rank 2


def test_dict_and_csv_have_the_numbers(tmp_path: pathlib.Path) -> None:
    report = Report(content())
    data = report.to_dict()
    assert (data["batches"], data["batches_per_second"], data["rounds"]) == (30, 5.0, 12)
    assert data["by_rank"][2] == {"rank": 2, **account(3.0, computed_seconds=6.0, waited_seconds=0.0)}
    data["by_rank"].clear()
    assert len(report.to_dict()["by_rank"]) == 3  # a copy
    report.to_csv(tmp_path / "ranks.csv")
    with open(tmp_path / "ranks.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["rank"], row["lost_seconds"], row["fresh"]) for row in rows] == [
        ("0", "0.0", "8"),
        ("1", "0.125", "8"),
        ("2", "3.0", "8"),
    ]


def test_numbers_are_written_for_people() -> None:
    assert [duration(s) for s in (0, 2.5e-6, 0.00123, 0.5, 12.34, 1234.5)] == [
        "0 s",
        "2.5 µs",
        "1.23 ms",
        "500 ms",
        "12.3 s",
        "1,234 s",
    ]
    assert [significant(x) for x in (0, 0.12345, 99.94, 123.4, 1234567)] == ["0", "0.123", "99.9", "123", "1,234,567"]


def reports_of_a_run() -> list[dict[str, Any]]:
    import stretto
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 1)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model, "eager-quorum", max_lag=2)

    def steps(number: int) -> None:
        for _ in range(number):
            optimizer.zero_grad()
            model(torch.ones(1, 4)).sum().backward()
            optimizer.step()

    rank = stretto.rank()
    reports = [optimizer.report()]
    steps(20)
    reports.append(optimizer.report())
    with optimizer.together():
        reports.append(optimizer.report())
    steps(20 + 10 * rank)
    optimizer.finish()
    reports.append(optimizer.report())
    stretto.shutdown()
    reports.append(optimizer.report())
    assert str(reports[-1]) and reports[-1]._repr_html_()
    return [report.to_dict() for report in reports]


def test_a_report_at_any_time() -> None:
    of_ranks = values(reports_of_a_run, 2, timeout=300, env={"STRETTO_IMBALANCE": "persistent:rank=1,delay=2ms"})
    for rank, (first, running, met, finished, after) in enumerate(of_ranks):
        assert first["batches"] == 0 and first["estimate"] is None and first["rank"] == rank
        assert running["deposits"] is None and running["deposits_of_this_rank"] == 20
        assert met["batches"] == 40 and met["replicas_identical"] is True
        assert finished["batches"] == 90 and finished["steps"] == 40 + 10 * rank
        assert finished["deposits"] == {"made": 90, "applied": 90, "dropped": 0, "pending": 0, "lost": 0}
        assert finished["imbalance"] == "persistent:rank=1,delay=2ms"
        assert sum(finished["staleness"]["histogram"]) == 90
        assert finished["staleness"]["max"] <= 2  # also after together(), where rounds are numbered anew
        assert finished["by_rank"][1]["computed_seconds"] >= 50 * 0.002
        assert finished["estimate"]["sync_seconds"] >= finished["estimate"]["ideal_seconds"] > 0
        assert after == finished
    assert of_ranks[0][3]["by_rank"] == of_ranks[1][3]["by_rank"]  # the same rounds have told both
