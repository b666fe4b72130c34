"""Schedules and predicted steps for the simulators of other people: every message has both ends, every operation can run."""

import collections
import json
import pathlib
import tempfile
import unittest

import chakra_files
from program import ProgramTest, main, stretto

Op = collections.namedtuple("Op", "kind peer bytes tag nanoseconds after name")


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
            ranks[-1][words[0]] = Op("calc", None, 0, None, int(words[2]), [], "")
        elif words[1:2] in (["send"], ["recv"]):
            ranks[-1][words[0]] = Op(words[1], int(words[4]), int(words[2].removesuffix("b")), int(words[6]), 0, [], "")
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
                op = Op(kind, node[f"comm_{other}"], node["comm_size"], node["comm_tag"], 0, node["after"], node["name"])
            elif kind == "allreduce":
                assert node["comm_type"] == 0
                op = Op(kind, None, node["comm_size"], None, 0, node["after"], node["name"])
            else:
                assert abs(1000 * node["micros"] - node["duration_nanos"]) <= 500
                op = Op(kind, None, 0, None, node["duration_nanos"], node["after"], node["name"])
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


LAYERS = [{"name": "in", "bytes": 9e6, "forward": 0.002, "backward": 0.004, "update": 0.001},
          {"name": "left", "bytes": 0, "forward": 0.001, "backward": 0.001, "update": 0, "after": "in"},
          {"name": "right", "bytes": 3e6, "forward": 0.003, "backward": 0.005, "update": 0.002, "after": "in"},
          {"name": "out", "bytes": 6e6, "forward": 0.001, "backward": 0.002, "update": 0,
           "after": ["left", "right"]}]
FORWARD, BACKWARD, UPDATE, BYTES = 0.007, 0.012, 0.003, 18e6
STEPS = 4


class PredictedSteps(ExportTest):
    def exported(self, job, *options):
        """By GOAL and, where its reader is there, by Chakra."""
        goal, chakra = self.folder / "steps.goal", self.folder / "steps"
        for old in self.folder.iterdir():
            old.unlink()
        result = stretto("predict", "fine", "-", "--goal", goal, "--chakra", chakra, "--trace-steps", STEPS, *options,
                         input=json.dumps(job))
        self.assert_succeeds(result)
        read = read_goal(goal.read_text(encoding="ascii"))
        self.assert_replayable(read)
        return read, read_chakra(chakra) if chakra_files.descriptor_pb2 else None

    def job(self, mode, workers, **more):
        return {"bandwidth": 1e9, "mode": mode, "steps": 10, **more,
                "workers": [{"count": workers, "batch": 1, "layers": LAYERS}]}

    def replayed(self, ranks, bandwidth):
        """Seconds, where a rank sends one message at a time and computes one thing at a time."""
        over, left = {}, [(rank, label) for rank, ops in enumerate(ranks) for label in ops]
        arrivals, card, processor = {}, [0] * len(ranks), [0] * len(ranks)
        while left:
            later = []
            for rank, label in left:
                op = ranks[rank][label]
                needed = [(rank, before) for before in op.after]
                if any(before not in over for before in needed) or (op.kind == "recv" and op.tag not in arrivals):
                    later.append((rank, label))
                    continue
                begin = max((over[before] for before in needed), default=0)
                if op.kind == "send":
                    arrivals[op.tag] = card[rank] = max(begin, card[rank]) + op.bytes / bandwidth
                if op.kind == "calc":
                    processor[rank] = max(begin, processor[rank]) + op.nanoseconds / 1e9
                over[rank, label] = {"calc": processor[rank], "send": arrivals.get(op.tag),
                                     "recv": max(begin, arrivals.get(op.tag, 0))}[op.kind]
            self.assertLess(len(later), len(left))
            left = later
        return max(over.values())

    def test_every_mode_can_be_replayed(self):
        for mode in ("async", "sync", "allreduce"):
            for workers in (1, 2, 5):
                for more in ({}, {"overlap": False}, {"servers": 3}):
                    if mode == "allreduce" and "servers" in more:
                        continue
                    with self.subTest(mode=mode, workers=workers, more=more):
                        goal, chakra = self.exported(self.job(mode, workers, **more))
                        self.assertEqual(len(goal), workers + (mode != "allreduce") * more.get("servers", 1))
                        if chakra is None:
                            continue
                        sums = sum(op.kind == "allreduce" for ops in chakra for op in ops.values())
                        self.assertEqual(sums, (mode == "allreduce" and workers > 1) * 3 * STEPS * workers)
                        if mode != "allreduce":
                            self.assertEqual([{f"l{label}": op._replace(after=[f"l{before}" for before in op.after], name="")
                                               for label, op in ops.items()} for ops in chakra], goal)

    def test_steps_take_what_the_equations_say(self):
        # Without overlap the step of one worker is a chain: M/B + F + B + M/B + s.
        message = BYTES / 1e9
        goal, _ = self.exported(self.job("async", 1, overlap=False))
        self.assertAlmostEqual(self.replayed(goal, 1e9), STEPS * (2 * message + FORWARD + BACKWARD + UPDATE), delta=1e-9)
        # Equation 11: a ring of K sends 2(K − 1)/K of the bytes.
        goal, _ = self.exported(self.job("allreduce", 3, overlap=False))
        self.assertAlmostEqual(self.replayed(goal, 1e9), STEPS * (FORWARD + BACKWARD + 2 * 2 / 3 * message + UPDATE), delta=1e-9)

    def test_bytes_are_those_of_the_layers(self):
        for servers in (1, 3):
            goal, _ = self.exported(self.job("sync", 2, servers=servers))
            sent = [sum(op.bytes for op in ops.values() if op.kind == "send") for ops in goal]
            self.assertEqual(sent, 2 * [STEPS * BYTES] + servers * [2 * STEPS * BYTES / servers])

    def test_bad_input_is_one_line(self):
        job = json.dumps(self.job("sync", 2, gpus_per_host=2))
        self.assert_rejected(stretto("predict", "fine", "-", "--goal", self.folder / "x", input=job), "gpus_per_host 1")
        self.assert_rejected(stretto("predict", "fine", "-", "--chakra", self.folder / "x", input=job), "gpus_per_host 1")
        job = json.dumps(self.job("sync", 2))
        self.assert_rejected(stretto("predict", "fine", "-", "--chakra", "/nonexistent/x", input=job), "/nonexistent/x.0.et")
        self.assert_rejected(stretto("predict", "fine", "-", "--goal", "/nonexistent/x", input=job), "/nonexistent/x")
        self.assert_rejected(stretto("predict", "fine", "-", "--chakra", "", input=job), "--chakra")
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    main()
