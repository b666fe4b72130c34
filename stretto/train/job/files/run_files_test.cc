#include "stretto/train/job/files/run_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "stretto/base/words.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/train/testing/test_task.h"
#include "stretto/transport/testing/thread_ranks.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = R"({"workload":"w","algorithm":"sync","ranks":3,"max_lag":4,"checkpoint_every":0})";

/// What share() throws on each rank of one host, where each has a folder of its own in mind.
std::vector<std::string> thrown_by_share(const std::vector<std::string>& folders, std::vector<std::string>* paths) {
  const auto ranks = static_cast<int>(folders.size());
  std::vector<std::string> thrown(folders.size());
  paths->resize(folders.size());
  const auto task = linear_task();
  run_thread_ranks(ranks, [&](Transport& transport, const Clock& clock) {
    World world(transport, clock);
    const auto rank = static_cast<std::size_t>(world.rank());
    const auto rank_task = task->start_rank({});
    Meeting meeting(world.engine(), rank_task->replica());
    RunFiles files({.out = folders[rank], .config = kConfig}, ranks);
    try {
      files.share(meeting, world.driver(), world, nullptr);
      EXPECT_TRUE(files.all_in_one_folder());
    } catch (const UsageError& error) {
      thrown[rank] = error.what();
    }
    (*paths)[rank] = files.path();
    return true;
  });
  return thrown;
}

TEST(RunFilesTest, EveryRankHasTheFolderOfRank0) {
  const TemporaryFolder folder;
  const std::string out = folder.path() + "/run";
  std::vector<std::string> paths;
  EXPECT_EQ(thrown_by_share({out, "", folder.path() + "/other"}, &paths), std::vector<std::string>(3));
  EXPECT_EQ(paths, std::vector<std::string>(3, out));
  EXPECT_EQ(read_whole_file(out + "/config.json").or_throw(), kConfig);
  EXPECT_EQ(std::distance(fs::directory_iterator(out), {}), 1) << "no probe is left";
  EXPECT_FALSE(fs::exists(folder.path() + "/other"));
  EXPECT_EQ(thrown_by_share({"", out}, &paths), std::vector<std::string>(2));
  EXPECT_EQ(paths, std::vector<std::string>(2));
}

TEST(RunFilesTest, AFolderOfSomebodyElseIsRefusedOnEveryRankAndStays) {
  const TemporaryFolder folder;
  folder.write("summary.json", "mine");
  std::vector<std::string> paths;
  for (const std::string& thrown : thrown_by_share({folder.path(), folder.path()}, &paths)) {
    EXPECT_EQ(thrown, text("output folder '", folder.path(),
                           "' holds summary.json, and no config.json of a run: expected a new folder, or one of an "
                           "earlier run"));
  }
  EXPECT_EQ(read_whole_file(folder.path() + "/summary.json").or_throw(), "mine");
  const std::string file = folder.write("file", "");
  for (const std::string& thrown : thrown_by_share({file, folder.path()}, &paths)) {
    EXPECT_TRUE(thrown.starts_with(text("output folder '", file, "' is not writable: "))) << thrown;
  }
}

TEST(RunFilesTest, GoesBackToACheckpointInItsOwnFolderAndBeginsElsewhere) {
  const TemporaryFolder folder;
  const auto steps = [&](const std::string& name) {
    folder.write(name + "/config.json", kConfig);
    return folder.write(name + "/records-0.jsonl", "{\"step\":0}\n{\"step\":1}\n{\"step\":2}\n");
  };
  const RunFiles::Checkpointed from{.steps = {2}, .states = {}};
  const std::string same = steps("same"), other = steps("other");
  RunFiles({.out = folder.path() + "/same", .resume = folder.path() + "/same/.", .config = kConfig}, 1).prepare(&from);
  EXPECT_EQ(read_whole_file(same).or_throw(), "{\"step\":0}\n{\"step\":1}\n");
  RunFiles({.out = folder.path() + "/other", .resume = folder.path() + "/same", .config = kConfig}, 1).prepare(&from);
  EXPECT_FALSE(fs::exists(other));
}

}  // namespace
}  // namespace stretto
