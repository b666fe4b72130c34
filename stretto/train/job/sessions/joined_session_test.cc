// Sessions of ranks that have joined their job: what a process that such a rank forks may do, and what a rank that is
// killed at any moment ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <new>
#include <thread>
#include <vector>

#include "stretto/base/description.h"
#include "stretto/base/error.h"
#include "stretto/membership/job.h"
#include "stretto/train/job/session.h"
#include "stretto/train/testing/deaf.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::StartsWith;

constexpr int kRanks = 4;

/// One rank's model and session.
struct JoinedTestRank {
  explicit JoinedTestRank(RankContext& context)
      : session(context, task->replica(), deaf,
                {.recipe = algorithm.recipe, .recipe_options = {.policy = algorithm.policy}}) {}
  void step() {
    session.begin_step(2, Duration(0));
    task->forward_backward(std::vector<std::uint32_t>{0, 1}, 1);
    session.end_backward("here");
    session.deposit(Duration(0));
    session.take();
  }

  Algorithm algorithm = parse_algorithm("sync", kRanks);
  std::unique_ptr<TrainingTask> all = linear_task();
  std::unique_ptr<RankTask> task = all->start_rank({.seed = 1, .lr = 0.05, .momentum = 0.9});
  Deaf deaf;
  Session session;
};

/// What the ranks of a test say, where all see it.
class Said {
 public:
  Said() : memory_(mmap(nullptr, kRanks * kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;
  ~Said() { munmap(memory_, kRanks * kBytes); }
  void put(int rank, const std::string& words) {
    words.copy(at(rank), kBytes - 1);
    at(rank)[std::min(words.size(), kBytes - 1)] = '\0';
  }
  std::string of(int rank) { return at(rank); }

 private:
  static constexpr std::size_t kBytes = 1000;
  char* at(int rank) { return static_cast<char*>(memory_) + static_cast<std::size_t>(rank) * kBytes; }
  void* memory_;
};

/// Starts the ranks of a job, each in a process that joins it. `before` (joining) and `look` (JoinOptions::look) are
/// called in the rank's process with its number.
std::vector<pid_t> start_ranks(const std::string& job, Said& said,
                               const std::function<std::string(JoinedRank&, int)>& main,
                               const std::function<void(int)>& before = {}, const std::function<void(int)>& look = {}) {
  std::vector<pid_t> processes;
  for (int rank = 0; rank < kRanks; ++rank) {
    processes.push_back(fork());
    if (processes.back() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      if (before) before(rank);
      JoinOptions options{.rank = rank, .ranks = kRanks, .job = job, .timeout = 30s};
      if (look) options.look = [&look, rank] { look(rank); };
      auto joined = join_job(options).or_throw();
      said.put(rank, main(joined, rank));
    } catch (const Failure& failure) {
      said.put(rank, text(name_of(failure.error().code), " of rank ", failure.error().rank, ": ", failure.what()));
    } catch (const std::exception& error) {
      said.put(rank, text("threw ", error.what()));
    }
    _exit(0);
  }
  return processes;
}

std::string fresh_job() {
  static int count = 0;
  return text("session ", getpid(), ' ', ++count);
}

/// Whether the ranks' meeting place is still there.
bool socket_is_left(const std::string& job) {
  char name[64];
  std::snprintf(name, sizeof(name), "@stretto-%016llx",
                static_cast<unsigned long long>(hash_of(text(getuid(), '\n', job))));
  std::ifstream sockets("/proc/net/unix");
  const std::string all((std::istreambuf_iterator<char>(sockets)), std::istreambuf_iterator<char>());
  return all.find(name) != std::string::npos;
}

/// What a process that rank 1 forks in the middle of its training may do.
std::string use_in_forked_process(JoinedRank& joined, std::unique_ptr<JoinedTestRank>& mine) {
  std::string out;
  const auto refused = [&](const char* what, const std::function<void()>& call) {
    try {
      call();
      out += text(what, " goes on; ");
    } catch (const UsageError& error) {
      if (!std::string(error.what()).starts_with("this process was forked from rank 1")) out += error.what();
    }
  };
  refused("context", [&] { joined.context(); });
  refused("begin_step", [&] { mine->session.begin_step(1, Duration(0)); });
  refused("take", [&] { mine->session.take(); });
  refused("finish", [&] { mine->session.finish(); });
  refused("abort", [&] { mine->session.abort("not mine"); });
  refused("meeting", [&] { mine->session.meeting(); });
  refused("driver", [&] { mine->session.driver(); });
  mine.reset();
  if (!joined.leave().exit_status.empty()) out += "has left; ";
  { const JoinedRank dropped = std::move(joined); }
  return out;
}

TEST(JoinedSession, AForkedProcessIsNoPartOfTheJob) {
  alarm(60);
  Said said, of_child;
  const auto processes = start_ranks(fresh_job(), said, [&](JoinedRank& joined, int rank) {
    auto mine = std::make_unique<JoinedTestRank>(joined.context());
    mine->session.begin({});
    for (int i = 0; i < 3; ++i) mine->step();
    pid_t child = 0;
    if (rank == 1) {
      int ready[2];
      if (pipe(ready) != 0) return std::string("no pipe");
      child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        of_child.put(1, "unused calls: " + use_in_forked_process(joined, mine));
        (void)!write(ready[1], "x", 1);
        pause();  // it holds what it has inherited while its parent leaves
      }
      char byte = 0;
      (void)!read(ready[0], &byte, 1);
    }
    for (int i = 0; i < 3; ++i) mine->step();
    const int rounds = mine->session.finish();
    mine.reset();
    const JobResult result = joined.leave(30s);
    if (child != 0) kill(child, SIGKILL);
    return text(rounds, result.ok() ? " rounds" : " rounds, and not all have left");
  });
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    EXPECT_EQ(status, 0);
  }
  alarm(0);
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(said.of(rank), "1 rounds") << rank;
  EXPECT_EQ(of_child.of(1), "unused calls: ");
}

/// Where a rank is when it is killed; one that is late keeps the others there. In `meeting` all but the late one have
/// greeted rank 0, and in `leave` rank 0 has said goodbye.
enum class Where { meeting, begin, exchange, finish, leave };

struct Killed {
  int rank;
  Where where;
  Duration later;  // once it is there; any length will do
};

constexpr Killed kKilled[] = {{1, Where::meeting, 0ms},   {0, Where::meeting, 0ms},  {2, Where::begin, 0ms},
                              {0, Where::begin, 30ms},    {1, Where::exchange, 0ms}, {0, Where::exchange, 3ms},
                              {3, Where::exchange, 17ms}, {1, Where::finish, 0ms},   {0, Where::finish, 20ms},
                              {0, Where::leave, 0ms}};

/// What the ranks and the test tell one another.
struct Shared {
  std::atomic<int> meeting{0};     // a bit for each rank that waits in join_job()
  std::atomic<bool> there{false};  // the victim is where it is to be killed
  std::atomic<bool> come{false};   // the late rank may come
};

/// Ranks watch one another four times a second. However long they take, they hear of it, or the watchdog ends the test.
TEST(JoinedSession, EveryRankHearsOfOneThatIsKilledAtAnyMoment) {
  const SteadyClock clock;
  for (const Killed& moment : kKilled) {
    const auto [victim, where, later] = moment;
    SCOPED_TRACE(text("rank ", victim, " in ", static_cast<int>(where), " after ", seconds(later), " s"));
    alarm(60);
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    Shared& shared = *new (memory) Shared;
    const int late = victim == kRanks - 1 ? 1 : kRanks - 1;
    const auto come = [&](Where to, int rank) {
      if (to != moment.where) return;
      const bool look_tells = to == Where::meeting || to == Where::leave;
      if (rank == moment.rank && !look_tells) shared.there = true;
      if (rank != late || to == Where::exchange) return;
      while (!shared.come) std::this_thread::sleep_for(1ms);
    };
    bool leaves = false;  // in the process of each rank
    const auto train = [&](JoinedRank& joined, int rank) {
      {
        JoinedTestRank mine(joined.context());
        come(Where::begin, rank);
        mine.session.begin({});
        for (int i = 0; i < 3; ++i) mine.step();
        come(Where::exchange, rank);
        while (moment.where == Where::exchange) mine.step();
        come(Where::finish, rank);
        mine.session.finish();
      }
      come(Where::leave, rank);
      leaves = true;
      joined.leave();
      return std::string("left");
    };
    const auto meet = [&](int rank) {
      come(Where::meeting, rank);
      // A rank that comes to rank 0's open door looks first when it has greeted rank 0.
      while (moment.where == Where::meeting && rank != 0 && (shared.meeting & 1) == 0) {
        std::this_thread::sleep_for(1ms);
      }
      // Nobody tells it that rank 0 has been there.
      if (moment.where == Where::meeting && moment.rank == 0 && rank == late) _exit(0);
    };
    const auto look = [&](int rank) {
      constexpr int kAll = (1 << kRanks) - 1;
      const int meeting = shared.meeting |= 1 << rank;
      if (moment.where == Where::meeting && meeting == (kAll & ~(1 << late))) shared.there = true;
      if (moment.where == Where::leave && leaves && rank == moment.rank) shared.there = true;
    };
    const std::string job = fresh_job();
    Said said;
    const auto processes = start_ranks(job, said, train, meet, look);
    while (!shared.there) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(later);
    kill(processes[static_cast<std::size_t>(victim)], SIGKILL);
    const TimePoint killed = clock.now();
    siginfo_t ended{};
    waitid(P_PID, static_cast<id_t>(processes[static_cast<std::size_t>(victim)]), &ended, WEXITED | WNOWAIT);
    // Rank 0 waits two seconds for ranks that are to hear why the ranks do not meet.
    if (where == Where::meeting) shared.come = true;
    for (int rank = 0; rank < kRanks; ++rank) {
      int status = 0;
      if (rank != late) waitpid(processes[static_cast<std::size_t>(rank)], &status, 0);
      EXPECT_EQ(status, rank == victim ? SIGKILL : 0) << rank;
    }
    RecordProperty(text("milliseconds_", &moment - kKilled), text(1e3 * seconds(clock.now() - killed)));
    shared.come = true;  // all others have missed the victim, or have left
    int status = 0;
    waitpid(processes[static_cast<std::size_t>(late)], &status, 0);
    EXPECT_EQ(status, 0);
    alarm(0);
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim || (where == Where::meeting && victim == 0 && rank == late)) continue;
      // Rank 0 is killed when it has said goodbye: nobody needs it any more.
      const std::string expected = where == Where::leave ? "left" : text("lost_peer of rank ", victim, ":");
      EXPECT_THAT(said.of(rank), StartsWith(expected)) << rank;
    }
    EXPECT_FALSE(socket_is_left(job));
    munmap(memory, sizeof(Shared));
  }
}

}  // namespace
}  // namespace stretto
