#include "stretto/train/loop/loop_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "stretto/train/replica/flat_math.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using testing::HasSubstr;

class LoopCheckpointTest : public testing::Test {
 protected:
  LoopCheckpointTest() { fs::remove_all(folder_); }
  ~LoopCheckpointTest() override { fs::remove_all(folder_); }

  LoopCheckpoint standing() {
    LoopCheckpoint c;
    c.replica = identity_of(replica());
    c.ranks = 2;
    c.batches = 7;
    c.steps = {4, 3};
    c.scheduler_steps = {2};
    c.scheduler_batches = {6};
    c.random = {{8, 1}, {8, 2}};
    c.pool = "60 samples";
    c.position.next = 7;
    c.position.steps = {4, 3};
    c.checksum = replica().checksum();
    return c;
  }
  void write() { ASSERT_TRUE(write_loop_checkpoint(folder_, standing(), replica(), "")); }
  std::string refusal() {
    try {
      read_loop_checkpoint(folder_, identity_of(replica()), 2, paths_);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
  /// With a checksum that fits.
  std::string refusal_of(const std::function<void(ordered_json&)>& change) {
    fs::remove(folder_ + "/checkpoint.json");
    write();
    const std::string file = folder_ + "/checkpoint.json";
    ordered_json json = ordered_json::parse(read_whole_file(file).or_throw());
    json.erase("checksum");
    change(json);
    json["checksum"] = Hash64::of(json.dump());
    std::ofstream(file) << json.dump();
    return refusal();
  }
  Replica& replica() { return rank_->replica(); }

  const std::string folder_ = testing::TempDir() + text("loop_checkpoint_", ::getpid());
  const std::unique_ptr<TrainingTask> task_ = linear_task();
  const std::unique_ptr<RankTask> rank_ = task_->start_rank({.lr = 0.1, .momentum = 0.9});
  CheckpointPaths paths_;
};

TEST_F(LoopCheckpointTest, IsReadAsItWasWritten) {
  write();
  const LoopCheckpoint there = read_loop_checkpoint(folder_, identity_of(replica()), 2, paths_);
  const LoopCheckpoint here = standing();
  EXPECT_EQ(there.batches, here.batches);
  EXPECT_EQ(there.steps, here.steps);
  EXPECT_EQ(there.scheduler_steps, here.scheduler_steps);
  EXPECT_EQ(there.scheduler_batches, here.scheduler_batches);
  EXPECT_FALSE(there.any_ranks);
  EXPECT_EQ(there.random, here.random);
  EXPECT_EQ(there.pool, here.pool);
  EXPECT_EQ(there.position, here.position);
  EXPECT_EQ(there.checksum, here.checksum);
  EXPECT_EQ(paths_.replica, folder_ + "/stretto-state-7.pt");
  replica().load(read_whole_file(paths_.replica, FileContent::bytes).or_throw());
}

TEST_F(LoopCheckpointTest, OneOfMembersThatChangeIsThatOfAnyNumberOfRanks) {
  LoopCheckpoint c = standing();
  c.any_ranks = true;
  c.steps.clear();
  c.random.clear();
  c.position.steps.clear();
  ASSERT_TRUE(write_loop_checkpoint(folder_, c, replica(), ""));
  for (const std::optional<int> ranks : {std::optional<int>(5), std::optional<int>()}) {
    const LoopCheckpoint there = read_loop_checkpoint(folder_, identity_of(replica()), ranks, paths_);
    EXPECT_TRUE(there.any_ranks);
    EXPECT_EQ(there.batches, 7u);
  }
  write();
  EXPECT_EQ(read_loop_checkpoint(folder_, identity_of(replica()), std::nullopt, paths_).steps, standing().steps);
  EXPECT_THROW(read_loop_checkpoint(folder_, identity_of(replica()), 5, paths_), UsageError);
}

TEST_F(LoopCheckpointTest, OnlyTheNewestStateIsKept) {
  write();
  LoopCheckpoint later = standing();
  later.batches = 9;
  later.steps = {5, 4};
  ASSERT_TRUE(write_loop_checkpoint(folder_, later, replica(), ""));
  EXPECT_FALSE(fs::exists(folder_ + "/stretto-state-7.pt"));
  EXPECT_EQ(read_loop_checkpoint(folder_, identity_of(replica()), 2, paths_).batches, 9u);
}

TEST_F(LoopCheckpointTest, ThatOfAnotherProgramIsRefused) {
  EXPECT_THAT(refusal_of([](auto& json) { json["ranks"] = 3; }), HasSubstr("contradicts itself: 3 ranks"));
  EXPECT_THAT(refusal_of([](auto& json) { json["library"] = "torch 1.0"; }),
              HasSubstr("it is of another program, with library torch 1.0 where this one has"));
  EXPECT_THAT(refusal_of([](auto& json) { json["optimizer"] = "Adam"; }), HasSubstr("with optimizer Adam where"));
  EXPECT_THAT(refusal_of([](auto& json) { json["model"] = 5; }), HasSubstr("parameters differ"));
  EXPECT_THAT(refusal_of([](auto& json) { json["version"] = 77; }), HasSubstr("version 77 of the format, expected"));
  EXPECT_EQ(refusal_of([](auto&) {}), "") << "the edit alone is no damage";
}

TEST_F(LoopCheckpointTest, ADamagedOneIsRefused) {
  EXPECT_THAT(refusal_of([](auto& json) { json["batches"] = 8; }), HasSubstr("expected stretto-state-8.pt"));
  EXPECT_THAT(refusal_of([](auto& json) { json["steps"] = {4, 4}; }), HasSubstr("7 batches, and 8 steps of all ranks"));
  EXPECT_THAT(refusal_of([](auto& json) { json["steps"] = {7}; }), HasSubstr("2 ranks, and the steps of 1"));
  EXPECT_THAT(refusal_of([](auto& json) { json["random"] = ordered_json::array(); }), HasSubstr("random numbers of 0"));
  EXPECT_THAT(refusal_of([](auto& json) { json["scheduler_batches"] = {6, 6}; }), HasSubstr("the batches of 2"));
  EXPECT_THAT(refusal_of([](auto& json) { json["position"] = 5; }), HasSubstr("cannot continue from"));
  EXPECT_THAT(refusal_of([](auto& json) { json["pool"] = 5; }), HasSubstr("truncated or damaged"));
  EXPECT_THAT(refusal_of([](auto& json) { json.erase("random"); }), HasSubstr("truncated or damaged"));
  EXPECT_THAT(refusal_of([](auto& json) { json["state_file"] = "../x"; }), HasSubstr("state file '../x'"));
  write();
  fs::resize_file(folder_ + "/stretto-state-7.pt", 3);
  EXPECT_THAT(refusal(), HasSubstr("truncated: 3 bytes"));
  fs::resize_file(folder_ + "/stretto-state-7.pt", 1 << 20);
  EXPECT_THAT(refusal(), HasSubstr("too long: 1048576 bytes"));
  write();
  fs::resize_file(folder_ + "/checkpoint.json", 30);
  EXPECT_THAT(refusal(), HasSubstr("truncated or damaged"));
}

TEST_F(LoopCheckpointTest, ThatOfAnotherProgramIsNotReplaced) {
  const std::string file = folder_ + "/checkpoint.json";
  const auto left_alone = [&](const std::string& content) {
    fs::create_directories(folder_);
    std::ofstream(file, std::ios::trunc) << content;
    const auto written = write_loop_checkpoint(folder_, standing(), replica(), "");
    EXPECT_EQ(read_whole_file(file).or_throw(), content);
    EXPECT_FALSE(fs::exists(folder_ + "/stretto-state-7.pt"));
    return written ? "" : written.error().message;
  };
  const std::string end = " and would be lost: expected a folder of its own";
  EXPECT_EQ(left_alone("mine"), text("'", file, "' is none of a loop", end));
  EXPECT_EQ(left_alone("{\"version\": 3, \"task\": \"digits\"}"), text("'", file, "' is none of a loop", end));
  fs::remove(file);
  write();
  ordered_json json = ordered_json::parse(read_whole_file(file).or_throw());
  for (const char* what : {"model", "optimizer"}) {
    fs::remove_all(folder_);
    ordered_json other = json;
    other[what] = "another";
    EXPECT_EQ(left_alone(other.dump()), text("'", file, "' is that of a program with another ", what, end));
  }
  json["ranks"] = 8;
  std::ofstream(file, std::ios::trunc) << json.dump();
  write();  // the same program on other ranks
}

TEST_F(LoopCheckpointTest, FilesOfTheUsersOwnStay) {
  fs::create_directories(folder_);
  const std::string own = folder_ + "/checkpoint-7.pt";
  std::ofstream(own) << "mine";
  write();
  write();
  EXPECT_EQ(read_whole_file(own).or_throw(), "mine");
}

TEST_F(LoopCheckpointTest, AFullDiskLeavesTheOlderOne) {
  write();
  class FullDisk final : public Disk {
    int write(const std::string&, std::string_view) const override { return ENOSPC; }
  };
  LoopCheckpoint later = standing();
  later.batches = 9;
  later.steps = {5, 4};
  const auto written = write_loop_checkpoint(folder_, later, replica(), "", FullDisk());
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.error().message, HasSubstr("No space left"));
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(read_loop_checkpoint(folder_, identity_of(replica()), 2, paths_).batches, 7u);
  EXPECT_FALSE(write_loop_checkpoint("/dev/null/here", standing(), replica(), "").ok());
}

}  // namespace
}  // namespace stretto
