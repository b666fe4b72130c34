#include "stretto/train/job/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "stretto/train/job/run.h"
#include "stretto/train/replica/flat_math.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using testing::HasSubstr;

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() : root_(fs::path(testing::TempDir()) / text("stretto_checkpoint_", ::getpid())) {
    fs::remove_all(root_);
    ::alarm(100);
  }
  ~CheckpointTest() override {
    ::alarm(0);
    fs::remove_all(root_);
  }

  std::string folder(const std::string& name) const { return (root_ / name).string(); }

  static RunSummary run(const TrainOptions& options, const TrainingTask& task = *linear_task()) {
    return run_training(options, task, {.progress = [](const RunProgress&) {}}).value();
  }

  // Trains `options` until a rank is killed in its step `step`; a checkpoint every 12 batches is left.
  static void run_and_die(const TrainOptions& options, std::uint64_t step) {
    const auto task = linear_task({.before_batch = [step](std::uint64_t at) {
      if (at == step) ::raise(SIGKILL);
    }});
    EXPECT_THROW(run(options, *task), Failure);
  }

  static std::string complaint(const TrainOptions& options, const TrainingTask& task = *linear_task()) {
    try {
      run(options, task);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  // Batches by number that the records of a folder name, with how often.
  static std::multiset<std::uint64_t> recorded(const std::string& folder, int ranks) {
    std::multiset<std::uint64_t> batches;
    for (int rank = 0; rank < ranks; ++rank) {
      std::ifstream in(text(folder, "/records-", rank, ".jsonl"));
      for (std::string line; std::getline(in, line);) {
        batches.insert(ordered_json::parse(line).at("batch").get<std::uint64_t>());
      }
    }
    return batches;
  }

  // Changes checkpoint.json, with a checksum that fits again.
  void edit(const std::string& folder, const std::function<void(ordered_json&)>& change) {
    const std::string path = folder + "/checkpoint.json";
    std::ifstream in(path);
    ordered_json json = ordered_json::parse(in);
    in.close();
    json.erase("checksum");
    change(json);
    json["checksum"] = Hash64::of(json.dump());
    std::ofstream(path) << json.dump();
  }

  const fs::path root_;
};

TEST_F(CheckpointTest, AKilledSyncRunContinuesToTheBit) {
  for (const auto& [data, ranks] : {std::pair("partitioned", 1), std::pair("partitioned", 3), std::pair("ring", 3)}) {
    TrainOptions options{.ranks = ranks,
                         .epochs = 6,
                         .lr_schedule = "decay:2@10",
                         .momentum = 0.9,
                         .data = data,
                         .checkpoint_every = 12,
                         .out = folder(text("whole", data, ranks))};
    run(options);
    const Checkpoint whole = read_checkpoint(options.out);
    EXPECT_EQ(whole.batches, 96u);

    options.out = folder(text("part", data, ranks));
    run_and_die(options, 40 / static_cast<std::uint64_t>(ranks));
    const Checkpoint part = read_checkpoint(options.out);
    EXPECT_GE(part.batches, 24u);
    EXPECT_LE(part.batches, 40u);
    EXPECT_NE(part.checksum, whole.checksum);

    options.resume = options.out;
    options.out.clear();
    const RunSummary rest = run(options);
    EXPECT_EQ(rest.deposits.made, 96u - part.batches);
    EXPECT_EQ(read_checkpoint(options.resume).checksum, whole.checksum) << data << ", " << ranks << " ranks";
    EXPECT_EQ(read_checkpoint(options.resume).batches, 96u);
  }
}

TEST_F(CheckpointTest, GoesOnWithOtherRanksWhereMembersChange) {
  for (const std::string data : {"partitioned", "ring"}) {
    const std::string name = folder("of_three_" + data);
    TrainOptions options{.ranks = 3, .epochs = 6, .data = data, .checkpoint_every = 12, .out = name};
    run_and_die(options, 10);
    const Checkpoint part = read_checkpoint(name);
    EXPECT_FALSE(part.any_ranks);

    options.resume = name;
    options.out.clear();
    options.ranks = 2;
    EXPECT_THAT(complaint(options),
                HasSubstr("checkpoint with ranks 3, this run with ranks 2: continue with the same"));
    options.least = 1;
    options.data.clear();
    if (data == "ring") {
      EXPECT_THAT(complaint(options), HasSubstr("checkpoint with data ring, this run with data shared"));
      continue;
    }
    const RunSummary rest = run(options);
    EXPECT_EQ(rest.deposits.applied, 96u - part.batches);
    EXPECT_EQ(rest.deposits.lost, 0u);
    const auto all = recorded(name, 3);
    EXPECT_EQ(std::set(all.begin(), all.end()).size(), 96u);
    EXPECT_EQ(all.size(), 96u);

    options.least = 0;
    options.data = "partitioned";
    EXPECT_THAT(complaint(options), HasSubstr("checkpoint with data shared, this run with data partitioned"));
  }
}

TEST_F(CheckpointTest, ASyncRunOnPartsByLabelContinuesToTheBit) {
  const auto task = linear_task({.labels = 6});
  TrainOptions options{.ranks = 3, .epochs = 6, .data = "labels", .checkpoint_every = 12, .out = folder("whole")};
  run_training(options, *task);
  const Checkpoint whole = read_checkpoint(options.out);
  EXPECT_EQ(whole.data, "labels:3");
  options.epochs = 3;
  options.out = folder("part");
  run_training(options, *task);
  options.epochs = 6;
  options.resume = options.out;
  options.out.clear();
  run_training(options, *task);
  EXPECT_EQ(read_checkpoint(options.resume).checksum, whole.checksum);
  options.data = "labels:4";
  EXPECT_THAT(complaint(options, *task), HasSubstr("checkpoint with data labels:3, this run with data labels:4"));
}

TEST_F(CheckpointTest, InTheOthersNoBatchIsLostOrUsedTwice) {
  for (const std::string algorithm : {"eager-solo", "eager-quorum", "eager-majority", "local", "wagma"}) {
    for (const std::string data : {"shared", "partitioned", "ring"}) {
      const std::string name = folder(algorithm + data);
      TrainOptions options{
          .algorithm = algorithm, .ranks = 3, .epochs = 6, .data = data, .checkpoint_every = 12, .out = name};
      run_and_die(options, 20);
      const Checkpoint part = read_checkpoint(name);
      EXPECT_GE(part.batches, 12u) << name;
      std::uint64_t steps = 0;
      for (const std::uint64_t own : part.position.steps) steps += own;
      EXPECT_EQ(steps, part.batches) << name;
      EXPECT_EQ(part.position.next - part.position.returned.size(), part.batches) << name;

      options.resume = name;
      options.out = name + "-rest";
      const RunSummary rest = run(options);
      EXPECT_EQ(rest.deposits.applied, 96u - part.batches) << name;
      EXPECT_TRUE(rest.replicas_identical) << name;
      std::multiset<std::uint64_t> expected;
      for (std::uint64_t batch = part.position.next; batch < 96; ++batch) expected.insert(batch);
      expected.insert(part.position.returned.begin(), part.position.returned.end());
      EXPECT_EQ(recorded(options.out, 3), expected) << name;
      EXPECT_EQ(read_checkpoint(options.out).batches, 96u) << name;
    }
  }
}

TEST_F(CheckpointTest, GoesOnUnderOtherOptionsOfItsAlgorithm) {
  struct Change {
    const char* algorithm;
    AlgorithmOptions before, after;
    std::uint64_t sync_every = 0;
  };
  const Change changes[] = {{"wagma", {{"tau", "2"}}, {{"tau", "5"}}},
                            {"wagma:2", {{"tau", "3"}}, {{"tau", "3"}, {"group-order", "fixed"}, {"stale", "carry"}}},
                            {"wagma-quorum", {{"tau", "2"}}, {{"tau", "4"}, {"stale", "mix"}, {"group-sum", "own"}}},
                            {"d-psgd", {{"graph", "ring"}}, {{"graph", "complete"}}, 3},
                            {"sgp", {{"graph", "exponential"}}, {{"neighbours", "2"}}, 3},
                            {"diloco", {{"outer-lr", "0.5"}}, {{"outer-momentum", "0.5"}}, 3}};
  for (const Change& change : changes) {
    TrainOptions options{.algorithm = change.algorithm,
                         .ranks = 3,
                         .epochs = 6,
                         .data = "partitioned",
                         .sync_every = change.sync_every,
                         .algorithm_options = change.before,
                         .checkpoint_every = 12,
                         .out = folder(text("before", change.algorithm))};
    run_and_die(options, 20);
    const Checkpoint part = read_checkpoint(options.out);
    EXPECT_GE(part.batches, 12u) << change.algorithm;
    options.resume = options.out;
    options.out = folder(text("after", change.algorithm));
    options.algorithm_options = change.after;
    const RunSummary rest = run(options);
    EXPECT_EQ(rest.deposits.applied, 96u - part.batches) << change.algorithm;
    EXPECT_TRUE(rest.replicas_identical) << change.algorithm;
    EXPECT_EQ(read_checkpoint(options.out).batches, 96u) << change.algorithm;
  }
}

/// What a checkpoint holds is the same for both: all ranks have the weights, and the momentum of rank 0.
TEST_F(CheckpointTest, OfGroupsGoesOnWithFullRoundsAloneAsLocalSgdDoes) {
  TrainOptions options{.algorithm = "wagma",
                       .ranks = 3,
                       .epochs = 3,
                       .momentum = 0.9,
                       .algorithm_options = {{"tau", "4"}},
                       .checkpoint_every = 12,
                       .out = folder("groups")};
  run(options);
  options.resume = options.out;
  options.epochs = 6;
  options.out = folder("full");
  options.algorithm_options = {{"tau", "1"}};
  run(options);
  options.out = folder("local");
  options.algorithm = "local";
  options.sync_every = 1;
  options.algorithm_options = {};
  run(options);
  EXPECT_EQ(read_checkpoint(folder("full")).checksum, read_checkpoint(folder("local")).checksum);
}

TEST_F(CheckpointTest, UnderDeliveryLatestNoBatchIsHandedOutTwice) {
  TrainOptions options{.algorithm = "eager-solo",
                       .ranks = 3,
                       .epochs = 6,
                       .imbalance = "persistent:rank=1,delay=1ms",
                       .sync_every = 24,
                       .delivery = "latest",
                       .checkpoint_every = 24,
                       .out = folder("latest")};
  run_and_die(options, 30);
  const Checkpoint part = read_checkpoint(options.out);
  EXPECT_GE(part.batches, 24u);
  options.resume = options.out;
  options.out = folder("rest");
  const RunSummary rest = run(options);
  EXPECT_EQ(rest.deposits.made, 96u - part.batches);
  EXPECT_TRUE(rest.replicas_identical);
  EXPECT_EQ(read_checkpoint(options.out).batches, 96u);
}

TEST_F(CheckpointTest, TrainsOnForMoreEpochs) {
  TrainOptions options{.ranks = 2, .epochs = 2, .momentum = 0.9, .checkpoint_every = 1000, .out = folder("first")};
  run(options);
  options.epochs = 5;
  options.resume = options.out;
  options.out = folder("second");
  run(options);
  options.resume.clear();
  options.out = folder("at_once");
  run(options);
  EXPECT_EQ(read_checkpoint(folder("second")).checksum, read_checkpoint(folder("at_once")).checksum);
}

TEST_F(CheckpointTest, KeepsOnlyTheNewestState) {
  const TrainOptions options{.ranks = 2, .epochs = 4, .checkpoint_every = 8, .out = folder("kept")};
  run(options);
  int states = 0;
  for (const auto& entry : fs::directory_iterator(options.out)) states += entry.path().extension() == ".pt" ? 1 : 0;
  EXPECT_EQ(states, 1);
}

TEST_F(CheckpointTest, EagerHasItsFullRoundsWhereCheckpointsFall) {
  const RunSummary s = run({.algorithm = "eager-solo",
                            .ranks = 4,
                            .epochs = 10,
                            .imbalance = "persistent:rank=1,delay=2ms",
                            .checkpoint_every = 40,
                            .out = folder("e")});
  EXPECT_EQ(s.deposits.applied, 160u);
  EXPECT_TRUE(s.replicas_identical);
  EXPECT_THAT(s.ledger, HasSubstr("full"));
}

TEST_F(CheckpointTest, OfAnotherJobIsRefusedInOneLine) {
  TrainOptions options{.ranks = 2, .epochs = 2, .checkpoint_every = 8, .out = folder("job")};
  run(options);
  options.resume = options.out;
  options.out = folder("next");
  const auto with = [&](auto change) {
    TrainOptions other = options;
    change(other);
    return complaint(other);
  };
  EXPECT_THAT(with([](auto& o) { o.ranks = 3; }), HasSubstr("checkpoint with ranks 2, this run with ranks 3"));
  EXPECT_THAT(with([](auto& o) { o.batch = 2; }), HasSubstr("checkpoint with batch 4, this run with batch 2"));
  EXPECT_THAT(with([](auto& o) { o.momentum = 0.5; }),
              HasSubstr("checkpoint with momentum 0, this run with momentum 0.5"));
  EXPECT_THAT(with([](auto& o) { o.seed = 9; }), HasSubstr("checkpoint with seed 1, this run with seed 9"));
  EXPECT_THAT(with([](auto& o) { o.data = "shared"; }), HasSubstr("data partitioned, this run with data shared"));
  EXPECT_THAT(with([](auto& o) { o.epochs = 1; }), HasSubstr("checkpoint after 32 batches, this run has 16 in all"));
  EXPECT_THAT(complaint(options, *linear_task({.features = 6})),
              HasSubstr("checkpoint of another model: names, shapes or types of its parameters differ"));
  edit(options.resume, [](ordered_json& json) { json["stretto"] = "0.0.7"; });
  EXPECT_THAT(complaint(options), HasSubstr("checkpoint with stretto version 0.0.7, this run with stretto version"));
  edit(options.resume, [](ordered_json& json) { json["version"] = 99; });
  EXPECT_THAT(complaint(options), HasSubstr("version 99 of the format, expected 3"));
}

TEST_F(CheckpointTest, ThatIsDamagedIsRefusedInOneLine) {
  TrainOptions options{.ranks = 2, .epochs = 2, .checkpoint_every = 1000, .out = folder("good")};
  EXPECT_THAT(complaint({.ranks = 2, .resume = folder("none")}), HasSubstr("none/checkpoint.json: no such file"));
  run(options);
  const std::string state = read_checkpoint(options.out).paths.replica;
  const auto size = fs::file_size(state);
  options.resume = options.out;

  fs::copy_file(state, state + ".kept");
  fs::resize_file(state, size / 2);
  EXPECT_THAT(complaint(options), HasSubstr(text("truncated: ", size / 2, " bytes, expected ", size)));
  fs::resize_file(state, size);
  EXPECT_THAT(complaint(options), HasSubstr("damaged"));
  fs::remove(state);
  EXPECT_THAT(complaint(options), HasSubstr(state));
  fs::rename(state + ".kept", state);
  EXPECT_EQ(complaint(options), "");

  fs::resize_file(options.out + "/checkpoint.json", 100);
  EXPECT_THAT(complaint(options), HasSubstr("checkpoint.json: truncated or damaged"));
}

TEST_F(CheckpointTest, ThatContradictsItselfIsRefused) {
  TrainOptions options{.ranks = 2, .epochs = 2, .checkpoint_every = 1000, .out = folder("numbers")};
  run(options);
  options.epochs = 4;
  options.resume = options.out;
  options.out = folder("more");
  const std::string file = options.resume + "/checkpoint.json";
  const std::string good = read_whole_file(file).or_throw();
  const auto refusal_of = [&](auto change) {
    std::ofstream(file) << good;
    edit(options.resume, change);
    return complaint(options);
  };
  EXPECT_THAT(refusal_of([](auto& json) { json["position"]["next"] = 30; }),
              HasSubstr("32 batches, and 30 by its position in the data"));
  EXPECT_THAT(refusal_of([](auto& json) { json["batches"] = 33; }),
              HasSubstr("state file 'stretto-state-32.pt', expected stretto-state-33.pt"));
  EXPECT_THAT(refusal_of([](auto& json) {
                json["position"]["returned"] = {1, 2, 3};
              }),
              HasSubstr("32 batches, and 29"));
  EXPECT_THAT(refusal_of([](auto& json) { json["position"]["steps"] = {16, 17}; }), HasSubstr("33 steps of all ranks"));
  EXPECT_THAT(refusal_of([](auto& json) { json["position"]["steps"] = {32}; }), HasSubstr("the steps of 1"));
  EXPECT_THAT(refusal_of([](auto& json) { json["state_file"] = "../numbers/stretto-state-32.pt"; }),
              HasSubstr("state file '../numbers/stretto-state-32.pt', expected stretto-state-32.pt"));
  EXPECT_EQ(refusal_of([](auto&) {}), "") << "the edit alone is no damage";

  ordered_json json = ordered_json::parse(good);
  json["batches"] = 31;  // with the checksum of 32
  std::ofstream(file) << json.dump(2);
  EXPECT_THAT(complaint(options), HasSubstr("damaged: its checksum is of another content"));
}

TEST_F(CheckpointTest, ANewRunInTheSameFolderLeavesNoneOfTheOldOne) {
  TrainOptions options{.ranks = 2, .epochs = 2, .checkpoint_every = 1000, .out = folder("again")};
  run(options);
  options.checkpoint_every = 0;
  run(options);
  options.resume = options.out;
  EXPECT_THAT(complaint(options), HasSubstr("checkpoint.json: no such file"));
  EXPECT_FALSE(fs::exists(folder("again") + "/stretto-state-32.pt"));
}

TEST_F(CheckpointTest, TheRecordsOfAJobThatWentOnAreWhole) {
  TrainOptions options{
      .algorithm = "eager-solo", .ranks = 3, .epochs = 6, .checkpoint_every = 12, .out = folder("whole")};
  run_and_die(options, 20);
  // The folder as a kill at another moment leaves it.
  for (const char* name : {"checkpoint.json.part", "stretto-state-7.pt.part", "stretto-state-7.pt"}) {
    std::ofstream(options.out + "/" + name) << "unfinished";
  }
  std::ofstream(options.out + "/records-1.jsonl", std::ios::app) << "{\"step\": 1";
  options.resume = options.out;
  options.out.clear();
  run(options);
  std::multiset<std::uint64_t> all;
  for (std::uint64_t batch = 0; batch < 96; ++batch) all.insert(batch);
  EXPECT_EQ(recorded(options.resume, 3), all);
  double begin = -1;
  std::ifstream in(options.resume + "/records-0.jsonl");
  for (std::string line; std::getline(in, line);) {
    const double next = ordered_json::parse(line).at("begin");
    EXPECT_GE(next, begin) << line;
    begin = next;
  }
  for (const auto& entry : fs::directory_iterator(options.resume)) {
    const std::string name = entry.path().filename();
    EXPECT_FALSE(name.ends_with(".part")) << name;
    EXPECT_TRUE(!name.ends_with(".pt") || name == "stretto-state-96.pt") << name;
  }
}

TEST_F(CheckpointTest, AnUnwritableFolderCostsTheCheckpointAndNotTheRun) {
  const std::string out = folder("blocked");
  TrainOptions options{.ranks = 2, .epochs = 2, .checkpoint_every = 1000, .out = out};
  std::string notices;
  const auto task = linear_task({.before_batch = [&](std::uint64_t step) {
    // Something that is no file lies where the checkpoint goes; permissions would not stop root.
    if (step == 0) fs::create_directories(out + "/stretto-state-32.pt.part");
  }});
  const auto summary = run_training(options, *task, {.progress = [&](const RunProgress& p) { notices += p.notice; }});
  EXPECT_EQ(summary->deposits.applied, 32u);
  EXPECT_THAT(notices, HasSubstr("no checkpoint after 32 batches: cannot write"));
}

}  // namespace
}  // namespace stretto
