"""Schedules and predicted steps for the simulators of other people: every message has both ends, every operation can run."""

import collections
import json
import pathlib
import tempfile
import unittest

import chakra_files
from program import ProgramTest, main, stretto

Op = collections.namedtuple("Op", "kind peer bytes tag nanoseconds processor after name")


def read_goal(text):
    """[{label: Op}] by rank."""
    lines = text.splitlines()
    ranks = []
    for line in lines[1:]:
        words = line.replace(":", "").split()
        if words[:1] == ["rank"]:
            assert int(words[1]) == len(ranks), line
            ranks.append({})
        elif words[1:2] == ["calc"]:
            processor = int(words[4]) if words[3:4] == ["cpu"] else 0
            ranks[-1][words[0]] = Op("calc", None, 0, None, int(words[2]), processor, [], "")
        elif words[1:2] in (["send"], ["recv"]):
            ranks[-1][words[0]] = Op(words[1], int(words[4]), int(words[2].removesuffix("b")), int(words[6]), 0, 0, [], "")
        elif words[1:2] == ["requires"]:
            ranks[-1][words[0]].after.append(words[2])
    assert lines[0] == f"num_ranks {len(ranks)}", lines[0]
    return ranks


def read_chakra(name):
    """The same of NAME.0.et and so on."""
    ranks = []
    while (path := pathlib.Path(f"{name}.{len(ranks)}.et")).exists():
        ranks.append({})
        for label, node in chakra_files.nodes_of(path).items():
            assert node["is_cpu_op"] is False
            kind = {"COMP": "calc", "COMM_SEND": "send", "COMM_RECV": "recv", "COMM_COLL": "allreduce"}[node["type"]]
            if kind in ("send", "recv"):
                own, other = ("src", "dst") if kind == "send" else ("dst", "src")
                assert node[f"comm_{own}"] == len(ranks) - 1
                op = Op(kind, node[f"comm_{other}"], node["comm_size"], node["comm_tag"], 0, 0, node["after"], node["name"])
            elif kind == "allreduce":
                assert node["comm_type"] == 0
                op = Op(kind, None, node["comm_size"], None, 0, 0, node["after"], node["name"])
            else:
                assert abs(1000 * node["micros"] - node["duration_nanos"]) <= 500
                op = Op(kind, None, 0, None, node["duration_nanos"], 0, node["after"], node["name"])
            ranks[-1][label] = op
    return ranks


class ExportTest(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_replayable(self, ranks):
        """Each message has one end on either side, with a tag of its own, and nothing waits for ever."""
        ends = {"send": [], "recv": []}
        for rank, ops in enumerate(ranks):
            for op in ops.values():
                if op.kind in ends:
                    self.assertGreater(op.bytes, 0)
                    ends[op.kind].append((*((rank, op.peer) if op.kind == "send" else (op.peer, rank)), op.tag, op.bytes))
        self.assertEqual(sorted(ends["send"]), sorted(ends["recv"]))
        self.assertEqual(len({tag for _, _, tag, _ in ends["send"]}), len(ends["send"]))
        done, arrived, left = [set() for _ in ranks], set(), sum(map(len, ranks))
        while left:
            before = left
            for rank, ops in enumerate(ranks):
                for label, op in ops.items():
                    if label in done[rank] or not done[rank].issuperset(op.after):
                        continue
                    if op.kind == "recv" and op.tag not in arrived:
                        continue
                    if op.kind == "send":
                        arrived.add(op.tag)
                    done[rank].add(label)
                    left -= 1
            self.assertLess(left, before, "the rest waits for ever")


COLLECTIVES = ("partial", "allreduce", "group", "broadcast", "barrier", "allgather")


class Schedules(ExportTest):
    def goal(self, *arguments):
        result = stretto("schedule", *arguments, "--format", "goal")
        self.assert_succeeds(result)
        return read_goal(result.stdout)

    def test_goal_can_be_replayed(self):
        for collective in COLLECTIVES:
            for ranks in (1, 2, 3, 8):
                with self.subTest(collective=collective, ranks=ranks):
                    replayed = self.goal(collective, "--ranks", ranks, "--initiator", ranks - 1)
                    self.assertEqual(len(replayed), ranks)
                    self.assert_replayable(replayed)

    @unittest.skipUnless(chakra_files.descriptor_pb2, "Debian's python3-protobuf is not installed")
    def test_chakra_says_what_goal_says(self):
        for collective in COLLECTIVES:
            for ranks in (1, 2, 3, 8):
                with self.subTest(collective=collective, ranks=ranks):
                    common = (collective, "--ranks", ranks, "--initiator", ranks - 1)
                    name = self.folder / f"{collective}-{ranks}"
                    result = stretto("schedule", *common, "--format", "chakra", "--out", name)
                    self.assert_succeeds(result)
                    self.assertIn(f"{name}.0.et", result.stdout)
                    chakra, goal = read_chakra(name), self.goal(*common)
                    unnamed = [{f"l{label}": op._replace(after=[f"l{before}" for before in op.after], name="")
                                for label, op in ops.items()} for ops in chakra]
                    self.assertEqual(unnamed, goal)

    def test_bad_input_is_one_line(self):
        chakra = ("schedule", "allreduce", "--format", "chakra")
        self.assert_rejected(stretto(*chakra), "--out allreduce")
        self.assert_rejected(stretto(*chakra, "--out", "/nonexistent/x"), "/nonexistent/x.0.et")
        self.assert_rejected(stretto(*chakra, "--out", self.folder / "x", "--rank", 1), "--rank")
        self.assert_rejected(stretto("schedule", "allreduce", "--out", "x"), "--out")
        self.assert_rejected(stretto("schedule", "allreduce", "--initiator", 1), "--initiator")
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    main()
