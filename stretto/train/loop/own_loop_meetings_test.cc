// Ranks of loops of one's own that meet where members of the job change.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/membership/job.h"
#include "stretto/train/loop/loop_batches.h"
#include "stretto/train/loop/own_loop.h"
#include "stretto/train/testing/two_numbers.h"

namespace stretto {
namespace {

constexpr std::uint64_t kBatchesInAll = 600;

float number_of_batch(std::uint64_t batch) {
  return static_cast<float>(batch + 1);
}

/// Ranks that meet every few steps, and are killed, or leave, whenever it comes.
class OwnLoopMeetings : public testing::TestWithParam<const char*> {
 protected:
  static constexpr std::size_t kMostMeetings = 1000;
  /// What ranks find where they have met, by the number of the meeting.
  using Found = std::array<std::atomic<std::uint64_t>, kMostMeetings>;

  OwnLoopMeetings()
      : found_(*new (::mmap(nullptr, sizeof(Found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                   Found{}) {}
  ~OwnLoopMeetings() override { ::munmap(&found_, sizeof found_); }
  OwnLoopMeetings(const OwnLoopMeetings&) = delete;
  OwnLoopMeetings& operator=(const OwnLoopMeetings&) = delete;

  /// In between of meet() and part(): all ranks have the same batches, and have heard the same words.
  void meet(OwnLoop& loop, std::uint64_t heard, std::string& wrong) {
    loop.meet();
    const std::uint64_t mine = 1 + loop.applied() * 100'000 + heard;
    std::uint64_t theirs = 0;
    if (!found_.at(meetings_).compare_exchange_strong(theirs, mine) && theirs != mine) {
      wrong += text("meeting ", meetings_, " found ", mine, ", another rank ", theirs, "; ");
    }
    ++meetings_;
    ::usleep(500);
    loop.part();
  }

  Found& found_;
  std::size_t meetings_ = 0;  // of this rank
};

TEST_P(OwnLoopMeetings, RanksAreKilledOrLeaveAtAnyTime) {
  for (int seed = 0; seed < 6; ++seed) {
    for (auto& found : found_) found = 0;
    ::alarm(110);
    const auto main = [&](RankContext& context) {
      std::string wrong;
      std::mt19937 random(static_cast<unsigned>(seed * 10 + context.rank()));
      std::thread killer;
      if (context.rank() > 1) {
        const int signal = context.rank() == 3 && seed % 2 != 0 ? SIGTERM : SIGKILL;  // which has it leave
        killer = std::thread([signal, after = 1000 + random() % 60'000] {
          ::usleep(static_cast<useconds_t>(after));
          ::kill(getpid(), signal);
        });
        killer.detach();
      }
      TwoNumbers replica{0};
      DistributedOptions options;
      options.algorithm = GetParam();
      std::uint64_t heard = 0, untold = 0;
      std::int64_t first = 0;  // the sum of the rounds' first number
      OwnLoop loop(context, replica, options,
                   {.tell_ranks = [&] { return std::vector<std::uint64_t>{untold}; },
                    .hear_ranks =
                        [&](const std::vector<std::vector<std::uint64_t>>& words) {
                          untold = 0;
                          for (const auto& theirs : words) heard += theirs.at(0);
                        },
                    // A rank may come after the others have begun, as where one of these is killed before.
                    .state = [&] { return text(heard, ' ', first); },
                    .take_state =
                        [&](const std::string& state) {
                          std::istringstream(state) >> heard >> first;
                          untold = 0;
                        }});
      loop.on_round([&](const RoundResult& result) {  // also those that a change completes as the loop begins
        if (!result.empty()) first += static_cast<std::int64_t>(result.as<float>(0)[0]);
      });
      loop.begin();
      LoopBatches batches(context, loop.session());
      const auto pool = batches.make(
          {.samples = kBatchesInAll, .batch = 1, .ranks = loop.session().most_ranks(), .epochs = 1}, Sharing::shared);
      pool->at_end([&loop] { return loop.drain(); });
      std::uint64_t steps = 0;
      while (const auto batch = pool->next()) {
        loop.begin_step();
        replica.backward(0, number_of_batch(batch->sequence));
        loop.step(1);
        ++untold;
        if (++steps % 20 == 0) meet(loop, heard, wrong);
      }
      loop.finish();
      constexpr std::int64_t all = kBatchesInAll * (kBatchesInAll + 1) / 2;
      const bool sums_gradients = loop.session().recipe().averages_gradients();
      if (loop.applied() != kBatchesInAll || (sums_gradients && first != all))
        wrong += text(loop.applied(), " batches, sum ", first, "; ");
      if (!loop.identical()) wrong += "replicas differ; ";
      context.report(text("good", wrong));
      return 0;
    };
    std::string told;
    const auto tell = [&told](const std::string& line) { told += line + '\n'; };
    const auto job = run_job({.ranks = 4, .least = 1, .tell = tell}, main).or_throw();
    ::alarm(0);
    EXPECT_TRUE(job.reached_end) << told << testing::PrintToString(job.exit_status) << ", seed " << seed;
    for (const int rank : {0, 1}) EXPECT_EQ(job.reports[static_cast<std::size_t>(rank)], "good") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OwnLoopMeetings, testing::Values("sync", "eager-quorum", "eager-solo", "diloco"));

}  // namespace
}  // namespace stretto
