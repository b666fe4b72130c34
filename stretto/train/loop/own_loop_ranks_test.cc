// The calls of a loop of one's own, without Torch: ranks as processes, which bring integers to sums that are divided by
// four, so that weights are exact in any order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/membership/job.h"
#include "stretto/train/loop/own_loop.h"
#include "stretto/train/testing/two_numbers.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr int kRanks = 4;
constexpr int kFailing = 2;  // the rank on which something goes wrong

/// "eager-solo by bucket": each bucket has rounds of its own.
DistributedOptions options_of(std::string algorithm) {
  DistributedOptions options;
  if (const auto name = algorithm.find(" by bucket"); name != std::string::npos) {
    options.algorithm_options = AlgorithmOptions{{"rounds", "per-bucket"}};
    algorithm.resize(name);
  }
  options.algorithm = std::move(algorithm);
  return options;
}

/// One rank's loop.
struct RankOfTest {
  RankOfTest(RankContext& context, const std::string& algorithm, LoopHooks hooks = {})
      : rank(context.rank()), loop(context, replica, options_of(algorithm), std::move(hooks)) {
    loop.begin();
  }

  /// Brings rank + 1, and 1.
  int step() {
    loop.begin_step();
    replica.backward(0, static_cast<float>(rank + 1));
    replica.backward(1, 1);
    return loop.step(1);
  }

  const int rank;
  TwoNumbers replica{0};
  OwnLoop loop;
};

/// What is not as it should be.
template <class Got, class Expected>
std::string unless_equal(const char* what, const Got& got, const Expected& expected) {
  return got == expected ? "" : text(what, " is ", got, ", expected ", expected, "; ");
}

std::string unless_numbers(const RankOfTest& at, float first, float second) {
  const auto numbers = at.replica.numbers();
  return unless_equal("number 0", numbers[0], first) + unless_equal("number 1", numbers[1], second);
}

/// What a call throws, with "usage: " before a UsageError.
std::string thrown_by(const std::function<void()>& call) {
  try {
    call();
    return "nothing";
  } catch (const Failure& failure) {
    return text("rank ", failure.error().rank, ": ", failure.what());
  } catch (const UsageError& error) {
    return text("usage: ", error.what());
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::vector<std::string> run(const std::function<std::string(RankContext&)>& main) {
  ::alarm(110);
  const auto result = run_job({.ranks = kRanks}, [&](RankContext& context) {
                        context.report(main(context));
                        return 0;
                      }).or_throw();
  ::alarm(0);
  EXPECT_TRUE(result.ok()) << result.cause;
  return result.reports;
}

class OwnLoopRanks : public testing::TestWithParam<const char*> {};

// Ranks make 12, 11, 10 and 9 steps, of which each drops its third.
TEST_P(OwnLoopRanks, ApplyEachBatchOnceThatWasNotDropped) {
  const auto said = run([&](RankContext& context) {
    RankOfTest at(context, GetParam());
    int rounds = 0;
    for (int i = 0; i < 12 - at.rank; ++i) {
      if (i != 2) {
        rounds += at.step();
        continue;
      }
      at.loop.begin_step();
      at.replica.backward(0, 1000);
      rounds += at.loop.pass();
    }
    rounds += at.loop.finish();
    const float first = 11 * 1 + 10 * 2 + 9 * 3 + 8 * 4;
    return unless_numbers(at, -first / 4, -38.f / 4) + unless_equal("batches", at.loop.applied(), 38u) +
           unless_equal("rounds", static_cast<int>(at.loop.rounds()), rounds) +
           unless_equal("steps", at.loop.steps(), static_cast<std::uint64_t>(12 - at.rank)) +
           unless_equal("identical", at.loop.identical(), true) + unless_equal("ended", at.loop.ended(), true);
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST_P(OwnLoopRanks, KeepGradientsWhereAStepHasBegun) {
  const auto said = run([&](RankContext& context) {
    RankOfTest at(context, GetParam());
    for (int i = 0; i < 3; ++i) {
      at.loop.begin_step();
      at.replica.backward(0, 4);
      at.loop.begin_step();
      at.replica.backward(0, 8);
      at.loop.step(1);
    }
    at.loop.finish();
    return unless_numbers(at, -36, 0);
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

// Rank 3 has no more batches when the others meet for the first time.
TEST_P(OwnLoopRanks, MeetAlsoOneThatHasFinished) {
  const auto said = run([&](RankContext& context) {
    RankOfTest at(context, GetParam());
    std::string wrong;
    for (int i = 0; i < 5; ++i) at.step();
    if (at.rank != 3) {
      for (int meeting = 1; meeting <= 3; ++meeting) {
        for (int i = 0; i < at.rank; ++i) at.step();
        at.loop.meet();
        const auto made = static_cast<float>(meeting);
        wrong += unless_numbers(at, -(50 + made * (2 + 2 * 3)) / 4, -(20 + made * 3) / 4);
        if (const std::string why = thrown_by([&] { at.loop.step(1); });
            why != "usage: step() where all ranks have met: expected part() before") {
          wrong += why + "; ";
        }
        at.loop.part();
      }
    }
    at.loop.finish();
    return wrong + unless_numbers(at, -74.f / 4, -29.f / 4);
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

// Rank 3 has no more batches for either loop when the others meet, now in the one, now in the other.
TEST_P(OwnLoopRanks, MeetInAllLoopsWhereTheyMeetInOne) {
  const auto said = run([&](RankContext& context) {
    RankOfTest first(context, GetParam()), second(context, GetParam());
    std::string wrong;
    const auto both_step = [&](int steps) {
      for (int i = 0; i < steps; ++i) first.step(), second.step();
    };
    both_step(5);
    if (context.rank() != 3) {
      for (int meeting = 1; meeting <= 4; ++meeting) {
        RankOfTest& called = meeting % 2 == 0 ? first : second;
        both_step(context.rank());
        called.loop.meet();
        const auto made = static_cast<float>(meeting);
        for (const RankOfTest* at : {&first, &second})
          wrong += unless_numbers(*at, -(50 + made * (2 + 2 * 3)) / 4, -(20 + made * 3) / 4);
        called.loop.part();
      }
    }
    second.loop.finish();
    if (const std::string why = thrown_by([&] { first.step(); }); why.find("of another optimizer") == std::string::npos)
      wrong += why + "; ";
    first.loop.finish();
    for (const RankOfTest* at : {&first, &second}) wrong += unless_numbers(*at, -82.f / 4, -32.f / 4);
    return wrong;
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST_P(OwnLoopRanks, RefuseToFinishInAnotherOrder) {
  const auto said = run([&](RankContext& context) {
    RankOfTest first(context, GetParam()), second(context, GetParam());
    return thrown_by([&] { (context.rank() == kFailing ? second : first).loop.finish(); });
  });
  EXPECT_THAT(said, Each(HasSubstr("rank 2 finishes optimizer 2 of its optimizers, and rank 0 1")));
}

TEST_P(OwnLoopRanks, EndWithoutFinish) {
  const auto said = run([&](RankContext& context) {
    RankOfTest at(context, GetParam());
    for (int i = 0; i < 4 + at.rank; ++i) at.step();
    at.loop.end();
    return unless_numbers(at, -60.f / 4, -22.f / 4) + unless_equal("identical", at.loop.identical(), true);
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST_P(OwnLoopRanks, TellOfEachRound) {
  const auto said = run([&](RankContext& context) {
    int computed = 0, deposited = 0;
    std::uint64_t hooked = 0, rounds = 0, batches = 0;
    std::string wrong;
    RankOfTest at(context, GetParam(),
                  {.computed = [&] { wrong += unless_equal("deposits at computed", deposited, computed++); },
                   .deposited = [&] { wrong += unless_equal("computed at deposit", computed, ++deposited); },
                   .applied =
                       [&](std::uint64_t now, int) {
                         if (now < batches) wrong += text(now, " batches after ", batches, "; ");
                         batches = now;
                         ++hooked;
                       }});
    at.loop.on_round([&](const RoundResult& result) { wrong += unless_equal("round", result.round, rounds++); });
    for (int i = 0; i < 10; ++i) at.step();
    at.loop.finish();
    return wrong + unless_equal("computed", computed, 10) + unless_equal("batches", batches, 40u) +
           unless_equal("rounds told", rounds, at.loop.rounds()) + unless_equal("hooked", hooked, rounds);
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

/// The place where the failing rank throws.
enum class Thrower { computed, deposited, applied };

// What one rank does may reach another while that still begins.

TEST_P(OwnLoopRanks, HearWhatAHookHasThrown) {
  for (const Thrower thrower : {Thrower::computed, Thrower::deposited, Thrower::applied}) {
    const auto said = run([&](RankContext& context) {
      return thrown_by([&] {
        int steps = 0;
        const auto fail = [&](Thrower here) {
          if (here == thrower && context.rank() == kFailing && steps >= 5) throw std::runtime_error("the hook's own");
        };
        RankOfTest at(context, GetParam(),
                      {.computed = [&] { fail(Thrower::computed); },
                       .deposited = [&] { fail(Thrower::deposited); },
                       .applied = [&](std::uint64_t, int) { fail(Thrower::applied); }});
        try {
          for (;; ++steps) at.step();
        } catch (const std::exception&) {
          EXPECT_THAT(thrown_by([&] { at.step(); }),
                      HasSubstr("() after finish(), or after a failure: the job is over"));
          throw;
        }
      });
    });
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string& why = said[static_cast<std::size_t>(rank)];
      if (rank == kFailing) {
        EXPECT_EQ(why, "the hook's own");
      } else {
        EXPECT_EQ(why, "rank 2: rank 2 stopped the job: the hook's own");
      }
    }
  }
}

TEST_P(OwnLoopRanks, HearWhyOneAborts) {
  const auto said = run([&](RankContext& context) {
    return thrown_by([&] {
      RankOfTest at(context, GetParam());
      for (int i = 0; i < 3; ++i) at.step();
      if (at.rank == kFailing) at.loop.abort("enough");
      for (;;) at.step();
    });
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(said[static_cast<std::size_t>(rank)],
              rank == kFailing ? "usage: begin_step() after finish(), or after a failure: the job is over"
                               : "rank 2: rank 2 stopped the job: enough");
  }
}

TEST_P(OwnLoopRanks, HearOfAGradientThatIsNotFinite) {
  const auto said = run([&](RankContext& context) {
    return thrown_by([&] {
      RankOfTest at(context, GetParam());
      for (int i = 0;; ++i) {
        at.loop.begin_step();
        at.replica.backward(0, i == 4 && at.rank == kFailing ? std::numeric_limits<float>::infinity() : 1);
        at.loop.step(1);
      }
    });
  });
  EXPECT_THAT(said, Each(HasSubstr("the gradient of number 0 is not finite on rank 2, step 4")));
}

TEST_P(OwnLoopRanks, NameTheReplicaThatDiffers) {
  const auto said = run([&](RankContext& context) {
    RankOfTest at(context, GetParam());
    at.step();
    if (at.rank == kFailing) at.replica.number(1) += 1;
    return thrown_by([&] { at.loop.finish(); });
  });
  EXPECT_THAT(said, Each(StartsWith("rank 2: replicas differ from that of rank 0: rank 2;")));
}

// Where rounds wait for nobody one rank comes late: the others have seen it then, and said so once more. It stays away
// once a round has been applied with another rate, for as long as it has itself as many rounds as the rank that did so:
// further back it could be the one for which the next round waits.
TEST_P(OwnLoopRanks, HearOfRatesThatDifferAsWhatItIs) {
  const bool one_is_late = GetParam() != std::string("sync");
  const auto said = run([&](RankContext& context) -> std::string {
    RankOfTest at(context, GetParam());
    try {
      for (int i = 0;; ++i) {
        if (i == 5 && at.rank == kFailing) at.replica.set_rate(0.5);
        const auto stays_away = [&] {
          const auto theirs = context.counter(1).fetch_add(0);
          return theirs > 0 && at.loop.rounds() >= theirs && context.counter(0).fetch_add(0) == 0;
        };
        while (at.rank == 3 && one_is_late && stays_away()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        at.step();
        if (i >= 5 && at.rank == kFailing) {
          context.counter(1).fetch_add(at.loop.rounds() - context.counter(1).fetch_add(0));
        }
      }
    } catch (const Failure& failure) {
      at.loop.abort("an exception that nobody has caught");
      context.counter(0).fetch_add(1);
      return text(name_of(failure.error().code), ": ", failure.what());
    }
  });
  EXPECT_THAT(said, Each(AllOf(StartsWith("diverged: rank "), HasSubstr("0.5"))));
}

// An optimizer that goes where an exception has begun to unwind the stack says that its rank's loop is over.
TEST_P(OwnLoopRanks, HearOfALoopThatAnExceptionEnds) {
  const auto said = run([&](RankContext& context) {
    return thrown_by([&] {
      RankOfTest at(context, GetParam());
      struct EndsLoop {
        OwnLoop& loop;
        ~EndsLoop() { loop.end(); }
      } ends{at.loop};
      for (int i = 0;; ++i) {
        at.step();
        if (i == 5 && at.rank == kFailing) throw std::runtime_error("the loop's own");
      }
    });
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(said[static_cast<std::size_t>(rank)],
              rank == kFailing ? "the loop's own"
                               : "rank 2: rank 2 stopped the job: an exception has ended this rank's loop");
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, OwnLoopRanks,
                         testing::Values("sync", "eager-quorum", "eager-solo", "eager-quorum by bucket",
                                         "eager-solo by bucket"));

}  // namespace
}  // namespace stretto
