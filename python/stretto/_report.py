"""What stretto.Optimizer.report() returns. Knows no Torch."""

from __future__ import annotations

import csv
import json
import os
import textwrap
from typing import Any

from stretto import _pictures
from stretto._pictures import Step, aligned, duration, significant

_WIDTH = 80
_MOST_RANKS = 16  # that have a row in the text


class Report:
    """What one rank knows of a job: an account of all ranks, from the rounds that it has applied, and of its own steps.

    print() shows a table, a notebook the same with pictures.
    """

    def __init__(self, content: str, device: str = "") -> None:
        """`content`: what the binding says, as JSON. `device`: a sentence about how gradients come from there."""
        given = json.loads(content)
        ledger = given["ledger"]
        deposits = ledger.get("deposits")  # of all ranks: where none goes on
        seconds = ledger["seconds"]
        batches = deposits["applied"] if deposits else ledger["batches"]
        self._last_steps: list[list[Step]] = [[tuple(step) for step in steps] for steps in given["last_steps"]]
        self._data: dict[str, Any] = {
            "algorithm": given["algorithm"],
            "rank": given["rank"],
            "ranks": given["ranks"],
            "max_lag": given["max_lag"],
            "imbalance": given["imbalance"],
            "finished": given["finished"],
            "replicas_identical": given["replicas_identical"],
            "batches": batches,
            "seconds": seconds,
            "batches_per_second": batches / seconds if seconds > 0 else 0.0,
            "rounds": ledger["rounds"],
            "empty_rounds": ledger["empty_rounds"],
            "rounds_by_policy": ledger["rounds_by_policy"],
            "staleness": ledger["staleness"],
            "steps": given["steps"],
            "deposits_of_this_rank": given["deposits"],
            "deposits": deposits,
            "estimate": given["estimate"],
            "holds": given["holds"],
            "device": device,
            "by_rank": [{"rank": rank, **account} for rank, account in enumerate(ledger["ranks"])],
        }
        self._hosts: list[str] = given.get("hosts", [])  # of each rank, where there are several
        for account, host in zip(self._data["by_rank"], self._hosts):
            account["host"] = host
        if "between_hosts" in given:
            self._data["between_hosts"] = given["between_hosts"]

    def to_dict(self) -> dict[str, Any]:
        """All numbers, in seconds and counts. None stands for what is not known: `deposits` and `replicas_identical`
        until the ranks have met, `estimate` without a step time, `holds` where no rank has held this one.
        """
        copy: dict[str, Any] = json.loads(json.dumps(self._data))
        return copy

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Writes the account of each rank: a row a rank, with a head."""
        rows = self._data["by_rank"]
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)

    def __str__(self) -> str:
        above = [line for text in self._headline() for line in _wrapped(text)]
        below = [line for text in self._rest_of_table() + self._notes() for line in _wrapped(text)]
        return "\n".join([*above, "", *aligned(*self._table()), "", *below])

    def __repr__(self) -> str:
        data = self._data
        return f"<stretto report of {data['algorithm']}: rank {data['rank']} of {data['ranks']}>"

    def _repr_html_(self) -> str:
        head, rows = self._table()
        lanes = [(f"rank {self._named(rank)}", steps) for rank, steps in enumerate(self._last_steps)][:_MOST_RANKS]
        parts = [_pictures.paragraph("\n".join(self._headline())), _pictures.table(head, rows)]
        parts += [_pictures.paragraph(line) for line in self._rest_of_table() + self._notes()]
        parts.append(_pictures.time_lines(lanes, "The last steps, each rank by its own clock"))
        parts.append(_pictures.bars(self._stalenesses(), "Batches by staleness, in rounds"))
        return f"<div>{''.join(parts)}</div>"

    def _headline(self) -> list[str]:
        data = self._data
        staleness = data["staleness"]
        slow = "" if data["imbalance"] == "none" else f"; injected: {data['imbalance']}"
        between = [f"messages between hosts by {data['between_hosts']}"] if "between_hosts" in data else []
        return [
            f"{data['algorithm']} on {data['ranks']} {'ranks' if data['ranks'] > 1 else 'rank'}: {data['batches']:,} "
            f"batches applied in {duration(data['seconds'])}, {significant(data['batches_per_second'])} a second{slow}",
            f"{data['rounds']:,} rounds; staleness {staleness['mean']:.2f} on average, {staleness['max']} at most",
            *between,
        ]

    def _named(self, rank: int) -> str:
        return f"{rank} ({self._hosts[rank]})" if self._hosts else str(rank)

    def _shown(self) -> list[dict[str, Any]]:
        """All ranks, or those that have cost the others most."""
        ranks: list[dict[str, Any]] = self._data["by_rank"]
        costly = sorted(ranks, key=lambda rank: -float(rank["lost_seconds"]))[:_MOST_RANKS]
        return sorted(costly, key=lambda rank: int(rank["rank"]))

    def _table(self) -> tuple[list[str], list[list[str]]]:
        head = ["rank", "computed", "waited", "waiting", "cost the others", "fresh", "stale", "nothing"]
        rows = []
        for rank in self._shown():
            both = rank["computed_seconds"] + rank["waited_seconds"]
            rows.append(
                [
                    self._named(rank["rank"]),
                    duration(rank["computed_seconds"]),
                    duration(rank["waited_seconds"]),
                    f"{100 * rank['waited_seconds'] / both if both else 0:.0f} %",
                    duration(rank["lost_seconds"]),
                    str(rank["fresh"]),
                    str(rank["stale"]),
                    str(rank["null"]),
                ]
            )
        return head, rows

    def _rest_of_table(self) -> list[str]:
        left = len(self._data["by_rank"]) - _MOST_RANKS
        return [f"… and {left} ranks that have cost the others less"] if left > 0 else []

    def _notes(self) -> list[str]:
        notes = [self._who_costs(), self._which_host_costs(), self._estimate(), self._holds(), self._deposits()]
        notes += [self._replicas(), self._data["device"]]
        known = f"All of this as rank {self._data['rank']} knows it; computed and waited are by each rank's own clock."
        return [note for note in notes if note] + [known]

    def _who_costs(self) -> str:
        ranks = self._data["by_rank"]
        total = sum(rank["lost_seconds"] for rank in ranks)
        slowest = max(ranks, key=lambda rank: float(rank["lost_seconds"]))
        if total <= 0:
            return ""
        return (
            f"The others waited {duration(slowest['lost_seconds'])} because of rank {self._named(slowest['rank'])}, "
            f"{100 * slowest['lost_seconds'] / total:.0f} % of all waiting for somebody."
        )

    def _which_host_costs(self) -> str:
        costs: dict[str, float] = {}
        for host, rank in zip(self._hosts, self._data["by_rank"]):
            costs[host] = costs.get(host, 0.0) + rank["lost_seconds"]
        total = sum(costs.values())
        if total <= 0:
            return ""
        most = max(costs, key=lambda host: costs[host])
        return (
            f"Of the hosts {most} has cost the others most: {duration(costs[most])}, "
            f"{100 * costs[most] / total:.0f} % of all waiting for somebody."
        )

    def _estimate(self) -> str:
        estimate, seconds = self._data["estimate"], self._data["seconds"]
        if estimate is None or self._data["ranks"] == 1 or not seconds:
            return ""
        text = f"sync would have taken {duration(estimate['sync_seconds'])}"
        if not self._data["algorithm"].startswith("sync"):
            text += f", {significant(estimate['sync_seconds'] / seconds)} times as long"
        return (
            f"{text}, and {duration(estimate['ideal_seconds'])} if no rank ever waited: estimates, from "
            f"{estimate['steps']:,} measured step times, without what communication takes."
        )

    def _holds(self) -> str:
        holds = self._data["holds"]
        if holds is None:
            return ""
        return (
            f"Rank {self._named(holds['rank'])} holds the others: max_lag is the knob. Rank {self._data['rank']} "
            f"waited {duration(holds['longest'])} at most, and {duration(holds['seconds'])} in {holds['rounds']} "
            f"rounds, for batches that were {self._data['max_lag']} rounds old."
        )

    def _deposits(self) -> str:
        deposits = self._data["deposits"]
        if deposits is None:
            made = self._data["deposits_of_this_rank"]
            return (
                f"Deposits: {made:,} of this rank. How many are pending, and that none is lost, is known when the "
                "ranks have finished."
            )
        dropped = f"{deposits['dropped']:,} dropped, " if deposits["dropped"] else ""
        kept = f", the movement of {deposits['kept']:,.1f} kept" if "kept" in deposits else ""
        return (
            f"Deposits: {deposits['made']:,} made, {deposits['applied']:,} applied, {dropped}"
            f"{deposits['pending']:,} pending, {deposits['lost']:,} lost{kept}."
        )

    def _replicas(self) -> str:
        identical = self._data["replicas_identical"]
        if identical is None:
            return ""
        return "When last compared, all replicas were equal to the bit." if identical else "The replicas differ."

    def _stalenesses(self) -> list[tuple[str, float, str]]:
        histogram: list[int] = self._data["staleness"].get("histogram", [])
        total = sum(histogram)
        return [
            (str(staleness), float(batches), f"{batches:,} ({100 * batches / total:.0f} %)")
            for staleness, batches in enumerate(histogram[:20])
        ]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_long_words=False)
