#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <vector>

#include "stretto/train/job/checkpoint.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Operation {
  enum class Kind { write, sync, rename, remove };
  Kind kind;
  std::string path;
  std::string more;  // content, or the new name
};

// Does all there is to do, and keeps a list of it.
class RecordingDisk final : public Disk {
 public:
  int write(const std::string& path, std::string_view content) const override {
    operations.push_back({Operation::Kind::write, path, std::string(content)});
    return Disk::write(path, content);
  }
  int sync(const std::string& path) const override {
    operations.push_back({Operation::Kind::sync, path, {}});
    return Disk::sync(path);
  }
  int rename(const std::string& from, const std::string& to) const override {
    operations.push_back({Operation::Kind::rename, from, to});
    return Disk::rename(from, to);
  }
  int remove(const std::string& path) const override {
    operations.push_back({Operation::Kind::remove, path, {}});
    return Disk::remove(path);
  }
  mutable std::vector<Operation> operations;
};

// The disk after operations and a power cut: of a file the bytes synced, or half of the bytes written; of the names in
// a folder those at its last sync, and of the changes since then any subset.
class CutDisk {
 public:
  explicit CutDisk(std::string folder) : folder_(std::move(folder)) {}

  void apply(const Operation& operation) {
    if (operation.kind == Operation::Kind::sync) {
      sync(operation.path);
      return;
    }
    if (operation.kind == Operation::Kind::write) written(operation);
    change(now_, operation);
    pending_.push_back(operation);
  }

  std::size_t num_outcomes() const { return std::size_t{2} << pending_.size(); }

  // Bit 0: half of the bytes not synced are there; the others: which changes of names are.
  std::map<std::string, std::string> outcome(std::size_t choice) const {
    Names names = synced_;
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      if ((choice >> (i + 1) & 1) != 0) change(names, pending_[i]);
    }
    std::map<std::string, std::string> files;
    for (const auto& [name, file] : names) {
      const File& there = files_[file];
      files[name] = there.synced ? *there.synced : there.content.substr(0, choice % 2 * there.content.size() / 2);
    }
    return files;
  }

 private:
  struct File {
    std::string content;
    std::optional<std::string> synced;
  };
  using Names = std::map<std::string, std::size_t>;  // to the file

  void written(const Operation& operation) {
    inode_of_[operation.path] = files_.size();
    files_.push_back({operation.more, std::nullopt});
  }

  void sync(const std::string& path) {
    if (path == folder_) {
      synced_ = now_;
      pending_.clear();
    } else if (const auto found = now_.find(path); found != now_.end()) {
      files_[found->second].synced = files_[found->second].content;
    }
  }

  void change(Names& names, const Operation& operation) const {
    switch (operation.kind) {
      case Operation::Kind::write: names[operation.path] = inode_of_.at(operation.path); break;
      case Operation::Kind::remove: names.erase(operation.path); break;
      case Operation::Kind::rename:
        names.erase(operation.path);
        names[operation.more] = inode_of_.at(operation.path);
        break;
      case Operation::Kind::sync: break;
    }
  }

  const std::string folder_;
  std::vector<File> files_;
  std::map<std::string, std::size_t> inode_of_;  // the file last written under a name
  Names now_, synced_;
  std::vector<Operation> pending_;  // changes of names since the folder was synced
};

class PowerCutTest : public testing::Test {
 protected:
  PowerCutTest() : root_(fs::path(testing::TempDir()) / text("stretto_power_", ::getpid())) {
    fs::create_directories(root_ / "run");
    fs::create_directories(root_ / "after");
  }
  ~PowerCutTest() override { fs::remove_all(root_); }

  static Checkpoint checkpoint_after(std::uint64_t batches) {
    Checkpoint checkpoint{.stretto = "0", .task = "linear", .ranks = 1, .batches = batches};
    checkpoint.position = DispenserPosition(1);
    checkpoint.position.next = batches;
    checkpoint.position.steps[0] = batches;
    return checkpoint;
  }

  // Batches of the checkpoint that is found where only `files` are left; nothing if there is said to be none.
  std::optional<std::uint64_t> found_after(const std::map<std::string, std::string>& files) {
    const fs::path folder = root_ / "after";
    fs::remove_all(folder);
    fs::create_directories(folder);
    for (const auto& [path, content] : files) {
      std::ofstream(folder / fs::path(path).filename(), std::ios::binary) << content;
    }
    try {
      return read_checkpoint(folder.string()).batches;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("checkpoint.json: no such file"));
      return std::nullopt;
    }
  }

  const fs::path root_;
};

TEST_F(PowerCutTest, AfterAnyOperationThereIsAWholeCheckpointOrNone) {
  const auto task = linear_task();
  const auto rank = task->start_rank({.seed = 1, .lr = 0.1, .momentum = 0.9});
  const std::string path = (root_ / "run").string();
  const RunFolder folder = RunFolder::create(path);
  const RecordingDisk disk;
  std::vector<std::size_t> ends;
  for (const std::uint64_t batches : {10u, 20u, 30u}) {
    ASSERT_TRUE(write_checkpoint(folder, checkpoint_after(batches), rank->replica(), "momentum", disk));
    ends.push_back(disk.operations.size());
  }
  CutDisk cut(path);
  std::size_t outcomes = 0;
  for (std::size_t done = 0; done <= disk.operations.size(); ++done) {
    const auto complete =
        static_cast<std::size_t>(std::count_if(ends.begin(), ends.end(), [&](auto end) { return end <= done; }));
    for (std::size_t choice = 0; choice < cut.num_outcomes(); ++choice, ++outcomes) {
      const auto found = found_after(cut.outcome(choice)).value_or(0);
      EXPECT_TRUE(found == 10 * complete || found == 10 * (complete + 1))
          << "after " << done << " operations, outcome " << choice << ": " << found;
    }
    if (done < disk.operations.size()) cut.apply(disk.operations[done]);
  }
  EXPECT_GT(outcomes, 100u);
}

// Has room for so many bytes in all.
class SmallDisk final : public Disk {
 public:
  explicit SmallDisk(std::size_t room) : room_(room) {}
  int write(const std::string& path, std::string_view content) const override {
    if (content.size() > room_) {
      static_cast<void>(Disk::write(path, content.substr(0, room_)));
      return ENOSPC;
    }
    return Disk::write(path, content);
  }

 private:
  const std::size_t room_;
};

TEST_F(PowerCutTest, AFullDiskLeavesTheOlderCheckpointAndNothingElse) {
  const auto task = linear_task();
  const auto rank = task->start_rank({.seed = 1, .lr = 0.1, .momentum = 0.9});
  const RunFolder folder = RunFolder::create((root_ / "run").string());
  ASSERT_TRUE(write_checkpoint(folder, checkpoint_after(10), rank->replica(), "momentum"));
  const std::size_t state = rank->replica().save().size();
  for (const std::size_t room : {std::size_t{0}, state - 1, state}) {
    const auto written = write_checkpoint(folder, checkpoint_after(20), rank->replica(), "momentum", SmallDisk(room));
    ASSERT_FALSE(written);
    EXPECT_THAT(written.error().message, HasSubstr("No space left on device"));
    EXPECT_EQ(read_checkpoint(folder.path()).batches, 10u);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 3);
  }
}

}  // namespace
}  // namespace stretto
