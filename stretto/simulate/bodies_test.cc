// Bodies that come in pieces: a message that a round did not need may be in mid-body when the round is over.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "stretto/engine/engine.h"
#include "stretto/schedule/builder.h"
#include "stretto/simulate/cluster.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kCount = 500;
constexpr Round kRounds = 60;

/// The memory into which rank 0 receives the others' vectors.
enum class Into { scratch, half_of_scratch, given };

/// Rank 0 goes on when the vectors of `enough` others have come; any other vector that has come by then counts, too.
/// Given buffers of rank 0: the sum, or one for each of the others.
Schedule first_of(int rank, int ranks, int enough, Into into) {
  ScheduleBuilder b("first", rank, ranks);
  if (rank != 0) return b.build(b.send(0, 0, b.whole(b.buffer("value", DataType::int64, kCount)), {}));
  std::vector<OpId> done;
  const BufferId sum = into == Into::given ? kNoBuffer : b.buffer("sum", DataType::int64, kCount);
  for (int peer = 1; peer < ranks; ++peer) {
    if (into == Into::given) {
      done.push_back(b.recv(peer, 0, b.whole(b.buffer("theirs", DataType::int64, kCount)), {}));
      continue;
    }
    const std::uint64_t length = into == Into::scratch ? kCount : 2 * kCount;
    const Slice theirs{b.scratch("theirs", DataType::int64, length), length - kCount, kCount};
    done.push_back(b.reduce(b.whole(sum), theirs, ReduceOp::sum, {b.recv(peer, 0, theirs, {})}));
  }
  const OpId complete = b.nop(done);
  b.need(complete, Need::count(enough));
  return b.build(complete);
}

/// Runs round after round, as an application that calls for the next one when the last is retired.
class Rank final : public RoundOwner {
 public:
  Rank(SimulatedCluster& cluster, int rank, Schedule schedule)
      : engine_(cluster.transport(rank), cluster.clock()), schedule_(std::move(schedule)) {
    id_ = engine_.add(*this);
    cluster.on_wake(rank, [this] { run(); });
  }

  void run() {
    do {
      while (engine_.step()) {
      }
    } while (begin_next());
  }

  Engine& engine() { return engine_; }
  /// Of the given buffers of a round, one after the other.
  std::vector<std::int64_t>& memory(Round round) { return memory_[round]; }
  /// The same when the round was retired.
  const std::vector<std::int64_t>& then(Round round) const { return then_[round]; }
  Round retired() const { return then_.size(); }

  bool admit(Round round, const Envelope&) override { return round >= opened_ || engine_.is_open(id_, round); }
  bool call(Round, OpId, std::uint32_t) override { return true; }
  void completed(Round) override {}
  void retired(Round round) override { then_.push_back(memory_[round]); }
  void control(int, const Envelope&, std::span<const std::byte>) override {}
  void lost(int, const Error&) override {}
  void broken(const Error& reason) override { ADD_FAILURE() << reason.message; }
  bool poll(TimePoint) override { return false; }

 private:
  /// Rank r brings to a round a number of its own 8 bits in every element.
  std::int64_t mine(Round round) const {
    return engine_.rank() == 0 ? 0 : static_cast<std::int64_t>(1 + round) << 8 * (engine_.rank() - 1);
  }

  bool begin_next() {
    if (opened_ == kRounds || opened_ > retired()) return false;
    const Round round = opened_++;
    const std::size_t buffers = std::ranges::count(schedule_.buffers(), BufferSpec::Role::given, &BufferSpec::role);
    memory_.emplace_back(buffers * kCount, mine(round));
    engine_.open(id_, round, schedule_, 0);
    for (std::size_t i = 0; i < buffers; ++i) {
      engine_.bind(id_, round, static_cast<BufferId>(i),
                   {reinterpret_cast<std::byte*>(memory_[round].data() + i * kCount), true});
    }
    return true;
  }

  Engine engine_;
  const Schedule schedule_;
  CollectiveId id_ = 0;
  Round opened_ = 0;
  std::vector<std::vector<std::int64_t>> memory_, then_;
};

struct Job {
  Job(int ranks, int enough, Into into, std::uint64_t seed)
      : cluster(ranks, {.latency = 2us, .jitter = 20us, .pieces = 16}, seed) {
    for (int r = 0; r < ranks; ++r) {
      all.push_back(std::make_unique<Rank>(cluster, r, first_of(r, ranks, enough, into)));
    }
  }
  void run() {
    for (const auto& rank : all) rank->run();
    while (cluster.run_next()) {
    }
  }
  SimulatedCluster cluster;
  std::vector<std::unique_ptr<Rank>> all;
};

class Bodies : public ::testing::TestWithParam<Into> {};

TEST_P(Bodies, OfMessagesThatARoundDidNotNeedGoIntoNoOtherRound) {
  const bool given = GetParam() == Into::given;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    constexpr int kRanks = 6;
    constexpr int kEnough = 2;
    Job job(kRanks, kEnough, GetParam(), seed);
    job.cluster.slow_link(1, 0, 20);
    job.run();
    Rank& zero = *job.all[0];
    ASSERT_EQ(zero.retired(), kRounds);
    for (Round round = 0; round < kRounds; ++round) {
      const auto& then = zero.then(round);
      EXPECT_EQ(zero.memory(round), then) << "somebody wrote to the memory of round " << round << " after it";
      int came = 0;
      for (int peer = 1; peer < kRanks; ++peer) {
        const std::size_t first = given ? static_cast<std::size_t>(peer - 1) * kCount : 0;
        for (std::size_t i = first; i < first + kCount; ++i) {
          ASSERT_EQ(then[i], then[first]) << "seed " << seed << ", round " << round << ", element " << i;
        }
        const std::int64_t theirs = then[first] >> 8 * (peer - 1) & 0xff;
        if (theirs == 0) continue;
        EXPECT_EQ(theirs, static_cast<std::int64_t>(round) + 1) << "seed " << seed << ", rank " << peer;
        ++came;
      }
      EXPECT_GE(came, kEnough) << "seed " << seed << ", round " << round;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Engine, Bodies, ::testing::Values(Into::scratch, Into::half_of_scratch, Into::given),
                         [](const auto& info) {
                           switch (info.param) {
                             case Into::scratch: return "IntoScratch";
                             case Into::half_of_scratch: return "IntoHalfOfScratch";
                             case Into::given: break;
                           }
                           return "IntoGivenMemory";
                         });

/// A peer that stops in the middle of a body keeps no rank waiting whose schedule does not need it.
TEST(Bodies, HoldNoRoundUpThatReceivesThemIntoScratchMemory) {
  Job job(4, 2, Into::scratch, 3);
  job.cluster.slow_link(3, 0, 1e6);
  for (const auto& rank : job.all) rank->run();
  while (job.all[0]->retired() < kRounds && job.cluster.run_next()) {
  }
  EXPECT_LT(job.all[3]->retired(), 2u);
  EXPECT_LT(job.cluster.now().since_start, 1s);
}

TEST(Bodies, OfALostPeerReleaseTheRound) {
  int in_mid_body = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Job job(4, 2, Into::given, seed);
    job.cluster.slow_link(3, 0, 100);
    for (const auto& rank : job.all) rank->run();
    // Until the first piece of rank 3 has come.
    const TimePoint before = job.all[0]->engine().last_heard(3);
    while (job.all[0]->engine().last_heard(3) == before && job.cluster.run_next()) {
    }
    const Round round = job.all[0]->retired();
    in_mid_body += round < kRounds ? 1 : 0;
    job.cluster.crash(3, 1ms);
    while (job.cluster.run_next()) {
    }
    EXPECT_EQ(job.all[0]->retired(), kRounds) << "seed " << seed;
  }
  EXPECT_GT(in_mid_body, 25);
}

}  // namespace
}  // namespace stretto
