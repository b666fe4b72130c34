#include "stretto/train/job/files/folder_view.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "stretto/base/machine/host_name.h"
#include "stretto/base/words.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

TEST(FolderViewTest, EveryHostThatDoesNotSeeTheFolderHasItsLowestRankAsKeeper) {
  const FolderView view(Members({0, 1, 2, 0, 1, 2, 2}), {true, false, true, true, false, true, true});
  EXPECT_FALSE(view.seen_by_all());
  EXPECT_EQ(view.keepers(), std::vector<int>{1});
  EXPECT_EQ(view.kept_by(1), (std::vector<int>{1, 4}));
  EXPECT_TRUE(view.is_keeper(1));
  EXPECT_FALSE(view.is_keeper(4));
  EXPECT_EQ(view.keeper_of(4), 1);
  EXPECT_TRUE(view.seen_by(2));
  EXPECT_EQ(view.kept_by(2), std::vector<int>{});

  const FolderView several(Members({0, 1, 2, 1, 2}), {true, false, false, false, false});
  EXPECT_EQ(several.keepers(), (std::vector<int>{1, 2}));
  EXPECT_EQ(several.kept_by(2), (std::vector<int>{2, 4}));
}

// As in containers of one host, of which one has a folder of its own.
TEST(FolderViewTest, TheRanksOfAHostMayDiffer) {
  const FolderView view(Members(4), {true, true, false, false});
  EXPECT_EQ(view.keepers(), std::vector<int>{2});
  EXPECT_EQ(view.kept_by(2), (std::vector<int>{2, 3}));
  EXPECT_TRUE(FolderView(4).seen_by_all());
}

TEST(FolderProbeTest, IsSeenWhereItIsWholeAndLeavesNothing) {
  const TemporaryFolder here, elsewhere;
  {
    const FolderProbe probe(here.path());
    EXPECT_TRUE(FolderProbe::in(here.path(), probe.words()).is_seen());
    EXPECT_FALSE(FolderProbe::in(elsewhere.path(), probe.words()).is_seen());
    elsewhere.write(probe.words(), "");  // of a host that has not written its content yet, or another's
    EXPECT_FALSE(FolderProbe::in(elsewhere.path(), probe.words()).is_seen());
    EXPECT_NE(FolderProbe(here.path()).words(), probe.words());
    EXPECT_TRUE(probe.is_seen());
  }
  EXPECT_TRUE(std::filesystem::is_empty(here.path()));
}

/// Each rank with the folder `folder_of(rank)`, and what it finds.
std::vector<std::vector<int>> keepers_found(int ranks, const Members& members,
                                            const std::function<std::string(int rank)>& folder_of) {
  std::vector<std::vector<int>> found(static_cast<std::size_t>(ranks));
  const auto task = linear_task();
  run_thread_job(ranks, [&](Engine& engine) {
    const auto rank_task = task->start_rank({});
    Meeting meeting(engine, rank_task->replica());
    EngineDriver driver(engine);
    FolderProbe probe;
    const std::string words = meeting.broadcast_text(driver, [&] {
      probe = FolderProbe(folder_of(0));
      return probe.words();
    });
    if (engine.rank() != 0) probe = FolderProbe::in(folder_of(engine.rank()), words);
    found[static_cast<std::size_t>(engine.rank())] = look_together(meeting, driver, members, probe).keepers();
    return true;
  });
  return found;
}

TEST(FolderProbeTest, RanksAgreeOnWhoSeesIt) {
  const TemporaryFolder shared, own;
  for (const int ranks : {1, 2, 5}) {
    std::vector<int> host_of;
    for (int rank = 0; rank < ranks; ++rank) host_of.push_back(rank % 2);
    const std::vector<int> odd = ranks > 1 ? std::vector<int>{1} : std::vector<int>{};
    for (const auto& found :
         keepers_found(ranks, Members(host_of), [&](int rank) { return rank % 2 == 0 ? shared.path() : own.path(); })) {
      EXPECT_EQ(found, odd);
    }
    for (const auto& found : keepers_found(ranks, Members(host_of), [&](int) { return shared.path(); })) {
      EXPECT_EQ(found, std::vector<int>{});
    }
  }
}

TEST(FolderProbeTest, AFaultOfOneRankIsThrownOnAll) {
  for (const bool several : {false, true}) {
    std::vector<std::string> thrown(3);
    const auto task = linear_task();
    run_thread_job(3, [&](Engine& engine) {
      const auto rank_task = task->start_rank({});
      Meeting meeting(engine, rank_task->replica());
      EngineDriver driver(engine);
      const Members members = several ? Members({0, 1, 1}) : Members(3);
      require_no_fault(meeting, driver, members, "");
      try {
        require_no_fault(meeting, driver, members, engine.rank() == 0 ? "" : text("no folder ", engine.rank()));
      } catch (const UsageError& error) {
        thrown[static_cast<std::size_t>(engine.rank())] = error.what();
      }
      return true;
    });
    const std::string expected = several ? text("rank 1, on ", host_name(), ": no folder 1") : "no folder 1";
    EXPECT_EQ(thrown, std::vector<std::string>(3, expected));
  }
}

}  // namespace
}  // namespace stretto
