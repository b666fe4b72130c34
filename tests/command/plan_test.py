"""The order in which gradients are reduced: the plan of a workload's step, and what it costs."""

import json
import unittest

from program import STRETTO, ProgramTest, main, stretto

CAN_TRAIN = (STRETTO.parent / "stretto-train").exists()


class Rejected(ProgramTest):
    def test_what_there_is_not_is_named_before_anything_is_executed(self):
        self.assert_rejected(stretto("schedule", "plan"), "WORKLOAD is missing", "resnet-small", "vowels. `stretto")
        self.assert_rejected(stretto("schedule", "plan", "hyperplan"), "did you mean hyperplane?")
        self.assert_rejected(stretto("schedule", "plan", "hyperplane", "--ordering", "coordinator"), "topo")
        self.assert_rejected(stretto("schedule", "plan", "hyperplane", "--fusion-bytes", "few"), "64MiB")

    def test_orders_name_each_other(self):
        self.assertIn("--ordering", stretto("schedule", "--help").stdout)
        self.assertIn("--order,", stretto("schedule", "plan", "--help").stdout)
        self.assertIn("--order,", stretto("schedule", "--ordering", "topo", "--help").stdout)

    def test_the_option_leads_to_the_same_command(self):
        self.assert_rejected(stretto("schedule", "--ordering", "topo"), "WORKLOAD is missing", "resnet-small")
        self.assert_rejected(stretto("schedule", "hyperplan", "--ordering=topo"), "did you mean hyperplane?")
        self.assert_rejected(stretto("schedule", "--ordering", "gs", "hyperplane"), "topo")


@unittest.skipUnless(CAN_TRAIN, "no stretto-train in this build (STRETTO_TORCH=OFF)")
class Plan(ProgramTest):
    def plan(self, *arguments):
        result = stretto("schedule", "plan", *arguments, "--json")
        if "no such file" in result.stderr:
            self.skipTest("NOT TESTED on real data: " + result.stderr)
        self.assert_succeeds(result)
        return json.loads(result.stdout)

    @staticmethod
    def names(plan):
        return [tensor["name"] for buffer in plan["buffers"] for tensor in buffer["tensors"]]

    def test_has_each_tensor_of_a_step_once(self):
        plan = self.plan("hyperplane")
        self.assertEqual(sorted(self.names(plan)), ["linear.bias", "linear.weight"])
        self.assertEqual(plan["tensors"], 2)
        (buffer,) = plan["buffers"]
        self.assertEqual((buffer["type"], buffer["op"], buffer["bytes"]), ("float32", "sum", 4 * 8193))
        again = self.plan("hyperplane", "--seed", "7", "--batch", "3")
        self.assertEqual(again["fingerprint"], plan["fingerprint"])

    def test_cuts_buffers_where_they_are_full(self):
        plan = self.plan("hyperplane", "--fusion-bytes", "16KiB")
        self.assertEqual([len(buffer["tensors"]) for buffer in plan["buffers"]], [1, 1])

    def test_is_a_table_for_a_person(self):
        result = stretto("schedule", "plan", "hyperplane", "--ordering", "topo")
        self.assert_succeeds(result)
        self.assertIn("2 tensors in 1 buffers of at most 64 MiB", result.stdout)
        self.assertEqual(stretto("schedule", "--ordering", "topo", "hyperplane").stdout, result.stdout)
        self.assertIn("linear.weight", result.stdout)

    def test_another_step_may_have_another_graph(self):
        self.assertFalse([name for name in self.names(self.plan("branches")) if name.startswith("odd")])
        tenth = self.plan("branches", "--step", "10")
        self.assertEqual(sorted(name for name in self.names(tenth) if name.startswith("odd")), ["odd.bias", "odd.weight"])

    def test_sums_inside_the_model_come_in_the_order_of_the_passes(self):
        names = self.names(self.plan("resnet-small"))
        sums = [name for name in names if "sums" in name]
        norms = [f"{layer}_norm" for layer in ("first", "block1a", "block1b", "block2a", "block2b", "block3a", "block3b")]
        self.assertEqual(sums, [f"{norm}.sums" for norm in norms] + [f"{norm}.gradient_sums" for norm in reversed(norms)])
        self.assertLess(names.index("block3b_norm.gradient_sums"), names.index("block3b.weight"))

    def test_a_model_that_sums_in_its_passes_needs_all_ranks_there(self):
        if "no such file" in stretto("schedule", "plan", "resnet-small").stderr:
            self.skipTest("NOT TESTED on real data")
        result = stretto("train", "resnet-small", "--algorithm", "eager-quorum", "--ranks", "2", "--steps", "2")
        self.assert_rejected(result, "eager-quorum", "resnet-small", "expected sync")
        # It has topo without being told, and takes the options of that.
        self.assert_succeeds(stretto("train", "resnet-small", "--algorithm", "sync", "--ranks", "1", "--steps", "3",
                                     "--cycle-time", "1ms"))
        result = stretto("train", "resnet-small", "--algorithm", "sync", "--ranks", "1", "--steps", "3", "--gs-every", "2")
        self.assert_rejected(result, "gs-every 2", "ordering topo", "expected gs")

    def test_a_step_of_another_graph_leaves_the_plan(self):
        result = stretto("train", "branches", "--algorithm", "sync", "--ordering", "topo", "--ranks", "2", "--steps", "25",
                         "--json")
        if "no such file" in result.stderr:
            self.skipTest("NOT TESTED on real data: " + result.stderr)
        self.assert_succeeds(result)
        # Step 10 has the second head, for which no plan was made.
        self.assertGreater(json.loads(result.stdout)["ordering"]["all"]["deviations"], 0)
        self.assertIn("coordinator until the graph is stable", result.stderr)

    def test_costs_of_networks_are_measured(self):
        result = stretto("bench", "ordering-plan", "--networks", "--repeats", "1", "--json")
        self.assert_succeeds(result)
        rows = {row["network"]: row for row in json.loads(result.stdout)["networks"]}
        self.assertEqual(len(rows), 9)
        self.assertEqual((rows["ResNet-152"]["nodes"], rows["ResNet-152"]["edges"]), (985, 1034))
        self.assertEqual(rows["Inception-v3"]["parameters"], 27_161_264)
        for row in rows.values():
            self.assertGreaterEqual(row["tensors"], row["buffers"])
            for cost in ("record_ms", "plan_ms", "hash_ms", "step_ms"):
                self.assertGreater(row[cost], 0)
            self.assertLess(row["of_1000_steps"], 0.001)


if __name__ == "__main__":
    main()
