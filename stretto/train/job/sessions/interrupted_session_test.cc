// What an exception of one rank in the middle of a wait ends, by every kind of recipe: ranks as processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/membership/job.h"
#include "stretto/train/job/session.h"
#include "stretto/train/testing/deaf.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::IsEmpty;

constexpr int kRanksOfJob = 4;
constexpr int kInterrupted = 1;
constexpr int kLate = 2;
constexpr int kStopped = 0;  // the counter that tells the late rank that the others wait no more

struct Interrupt final : std::runtime_error {
  Interrupt() : std::runtime_error("the user wants it") {}
};

enum class Call { begin, exchange, finish };

struct Case {
  std::string algorithm;
  Call where;
  int seats = 0;
  bool aborts = true;  // else its destructor tells the others
};
void PrintTo(const Case& c, std::ostream* out) {
  constexpr const char* kWhere[] = {"begin", "exchange", "finish"};
  *out << c.algorithm << " in " << kWhere[static_cast<int>(c.where)] << ", seats " << c.seats << ", "
       << (c.aborts ? "aborts" : "is dropped");
}

/// One rank of a test: says what is not as it should be.
class TestedRank {
 public:
  TestedRank(RankContext& context, const Case& test) : context_(context), test_(test) {}

  std::string run() {
    const auto task = linear_task();
    const auto mine = task->start_rank({.seed = 1, .lr = 0.05, .momentum = 0.9});
    const auto other = task->start_rank({.seed = 2, .lr = 0.05, .momentum = 0.9});
    Session beside(context_, other->replica(), deaf_, options("sync", 0, {}));
    beside.begin({});
    {
      Session session(context_, mine->replica(), deaf_, options(test_.algorithm, test_.seats, [this] {
                        if (armed_ && context_.rank() == kInterrupted) throw Interrupt();
                      }));
      interrupt(session, *mine);
      misuse(session);
    }
    if (context_.rank() == kInterrupted) context_.counter(kStopped).fetch_add(1);
    if (test_.where == Call::finish) {
      // Another rank may have heard that the job is stopped before it came to finish().
      if (context_.rank() == kInterrupted && !beside.drained())
        said_ += "finish() has not ended the session beside it; ";
    } else {
      step(beside, *other);
    }
    beside.finish();
    if (beside.failed()) said_ += "the session beside it has failed, too; ";
    return said_;
  }

 private:
  static SessionOptions options(const std::string& name, int seats, std::function<void()> look) {
    const Algorithm algorithm = parse_algorithm(name, kRanksOfJob);
    return {.recipe = algorithm.recipe,
            .recipe_options = {.policy = algorithm.policy,
                               .seats = seats,
                               .local_steps = algorithm.recipe->local_steps,
                               .argument = algorithm.argument},
            .look = std::move(look)};
  }

  static void step(Session& session, RankTask& task) {
    session.begin_step(2, Duration(0));
    task.forward_backward(std::vector<std::uint32_t>{0, 1}, 1);
    session.end_backward("here");
    session.deposit(Duration(0));
    session.take();
  }

  /// The late rank comes when the others wait for it no more.
  void come(Call where) {
    if (where != test_.where) return;
    armed_ = true;
    while (context_.rank() == kLate && context_.counter(kStopped).fetch_add(0) < 1) std::this_thread::sleep_for(1ms);
  }

  void interrupt(Session& session, RankTask& task) {
    try {
      come(Call::begin);
      session.begin({});
      for (int i = 0; i < 3; ++i) step(session, task);
      come(Call::exchange);
      for (int i = 0; i < 40; ++i) step(session, task);
      come(Call::finish);
      session.finish();
      said_ += "nothing has ended the session; ";
    } catch (const Interrupt&) {
      if (context_.rank() != kInterrupted) said_ += "interrupted; ";
      if (test_.aborts) session.abort("as the user wants");
    } catch (const Failure& failure) {
      const char* expected = test_.aborts ? "rank 1 stopped the job: as the user wants"
                                          : "rank 1 stopped the job: an exception has ended this rank's part";
      if (failure.error().code != Errc::aborted || failure.error().rank != kInterrupted ||
          std::string(failure.what()) != expected) {
        said_ += text("failed with \"", failure.what(), "\"; ");
      }
    }
  }

  void misuse(Session& session) {
    const auto refuses = [&](const char* call, const std::function<void()>& run) {
      try {
        run();
        said_ += text(call, " goes on; ");
      } catch (const UsageError& error) {
        if (std::string(error.what()).find(text(call, "() after a failure")) == std::string::npos)
          said_ += error.what();
      }
    };
    refuses("begin", [&] { session.begin({}); });
    refuses("begin_step", [&] { session.begin_step(1, Duration(0)); });
    refuses("set_samples", [&] { session.set_samples(1); });
    refuses("end_backward", [&] { session.end_backward("here"); });
    refuses("deposit", [&] { session.deposit(Duration(0)); });
    refuses("take", [&] { session.take(); });
    refuses("finish", [&] { session.finish(); });
    refuses("finish", [&] { session.finish_within(1ms); });
  }

  RankContext& context_;
  const Case& test_;
  Deaf deaf_;
  bool armed_ = false;
  std::string said_;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const char* algorithm : {"sync", "eager-quorum:4", "local", "diloco", "wagma", "d-psgd", "gossip-grad", "sgp",
                                "ad-psgd", "easgd", "easgd-async", "ps-sync", "ps-async", "ssp:1", "k-sync:4"}) {
    const std::string name = algorithm;
    const bool waits = name != "ad-psgd" && name != "ps-async" && name != "easgd-async" && name != "wagma";
    for (const Call where : {Call::begin, Call::exchange, Call::finish}) {
      if (where == Call::exchange && !waits) continue;
      for (const int seats : {0, 1, 2}) out.push_back({name, where, seats, true});
      out.push_back({name, where, 0, false});
    }
  }
  return out;
}

class InterruptedSession : public testing::TestWithParam<Case> {};

TEST_P(InterruptedSession, StopsOnEveryRankAndLeavesTheOneBesideIt) {
  ::alarm(50);
  const auto result = run_job({.ranks = kRanksOfJob}, [](RankContext& context) {
                        context.report(TestedRank(context, GetParam()).run());
                        return 0;
                      }).or_throw();
  ::alarm(0);
  EXPECT_TRUE(result.ok()) << result.cause;
  EXPECT_THAT(result.reports, Each(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Recipes, InterruptedSession, testing::ValuesIn(cases()));

}  // namespace
}  // namespace stretto
