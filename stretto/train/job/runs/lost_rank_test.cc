// What a rank that is killed in the middle of a run ends, by every algorithm: ranks as processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <map>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/train/job/run.h"
#include "stretto/train/recipes/recipes.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

constexpr int kRanks = 4;

struct Lost {
  std::string algorithm;
  AlgorithmOptions options;
  std::string data;  // empty: the algorithm's default
};
void PrintTo(const Lost& lost, std::ostream* out) {
  *out << lost.algorithm << " " << lost.options.to_string();
}

/// Every algorithm of the table, and what else decides who waits for whom.
std::vector<Lost> every_algorithm() {
  const std::map<std::string_view, std::string> arguments{
      {"eager-deadline", ":2,1ms"}, {"ssp", ":2"}, {"k-sync", ":2"}};
  std::vector<Lost> out;
  for (const RecipeInfo& recipe : recipes()) {
    const auto argument = arguments.find(recipe.name);
    out.push_back({std::string(recipe.name) + (argument == arguments.end() ? "" : argument->second), {}, {}});
  }
  for (const char* policy : {"local:quorum:2", "local:solo", "diloco:quorum:2", "diloco:solo"}) {
    out.push_back({policy, {}, {}});
  }
  for (const char* server : {"ps-sync", "ps-async", "ssp:2", "k-sync:2"}) {
    out.push_back({server, {{"servers", "dedicated:1"}}, "shared"});
    out.push_back({server, {{"servers", "2"}}, {}});
  }
  return out;
}

/// Processes of the ranks, by rank: the launcher forks one after the other.
std::vector<pid_t> processes_of_ranks() {
  const pid_t launcher = ::getppid();
  std::ifstream children(text("/proc/", launcher, "/task/", launcher, "/children"));
  std::vector<pid_t> out;
  for (pid_t process = 0; children >> process;) out.push_back(process);
  return out;
}

class LostRank : public testing::TestWithParam<Lost> {
 protected:
  // The job has to end by itself: it is killed 30 seconds after a rank was lost.
  LostRank() { ::alarm(25); }
  ~LostRank() override {
    ::alarm(0);
    ::munmap(memory_, sizeof(std::atomic<int>));
  }

  TrainOptions options() const {
    TrainOptions options{.algorithm = GetParam().algorithm, .ranks = kRanks, .epochs = 50, .data = GetParam().data};
    options.algorithm_options = GetParam().options;
    return options;
  }

  /// Expects that a run ends because a rank was lost, and says so: `rank` is a regular expression.
  static void expect_lost(const TrainOptions& options, const TrainingTask& task, const std::string& rank) {
    ::alarm(25);
    try {
      run_training(options, task, {.progress = [](const RunProgress&) {}});
      ADD_FAILURE() << "the run went on to its end";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().code, Errc::lost_peer);
      EXPECT_THAT(failure.what(), testing::MatchesRegex(text("rank ", rank, " was lost after [0-9]+ of 800 batches: ",
                                                             "ended by signal 9 \\(Killed\\)")));
    }
  }

 private:
  void* memory_ = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

 protected:
  std::atomic<int>& shared_ = *new (memory_) std::atomic<int>(0);  // of all ranks
};

TEST_P(LostRank, EndsTheJobAndIsNamed) {
  // Rank 0 has the center, or the first part of the weights; the last rank is the one that serves alone.
  for (const int victim : {0, 1, kRanks - 1}) {
    for (const int seats : {0, 1, 2}) {
      SCOPED_TRACE(text("rank ", victim, ", seats ", seats));
      shared_ = 0;
      const auto task = linear_task({.before_batch = [&](std::uint64_t step) {
        if (step != 12 || shared_.fetch_add(1) != 0) return;
        const std::vector<pid_t> processes = processes_of_ranks();
        STRETTO_CHECK(processes.size() == kRanks, processes.size(), " processes");
        ::kill(processes[static_cast<std::size_t>(victim)], SIGKILL);
      }});
      TrainOptions options = this->options();
      options.seats = seats;
      options.pace = std::chrono::microseconds(100);  // of a sample: no rank takes all batches before it ends
      expect_lost(options, *task, text(victim));
    }
  }
}

TEST_P(LostRank, WakesThoseThatSleep) {
  // Every rank sleeps for hours after its first batch; the second that comes to it is killed.
  const auto task = linear_task({.before_batch = [&](std::uint64_t) {
    if (shared_.fetch_add(1) == 1) ::raise(SIGKILL);
  }});
  for (const char* imbalance : {"linear:9000s..9999s", "none"}) {
    SCOPED_TRACE(imbalance);
    shared_ = 0;
    TrainOptions options = this->options();
    options.imbalance = imbalance;
    if (options.imbalance == "none") options.pace = std::chrono::hours(1);
    expect_lost(options, *task, "[0-3]");
  }
}

INSTANTIATE_TEST_SUITE_P(Run, LostRank, testing::ValuesIn(every_algorithm()), [](const auto& info) {
  std::string name = info.param.algorithm + info.param.options.to_string();
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace stretto
