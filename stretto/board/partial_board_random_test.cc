// Applications and engines of all ranks, one access at a time, in an order that a seed draws.

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "stretto/board/open_round.h"
#include "stretto/board/partial_seat.h"
#include "stretto/board/testing/quorum_rule.h"
#include "stretto/board/testing/test_support.h"

namespace stretto {
namespace {

struct Setting {
  int ranks = 0;
  int quorum = 0;
  int steps = 0;
  bool bucketwise = false;
  bool interleaved = true;
  PartialShape shape;
};

Setting draw(Random& random) {
  Setting out;
  out.ranks = static_cast<int>(random.between(1, 5));
  out.quorum = static_cast<int>(random.between(1, out.ranks));
  out.steps = static_cast<int>(random.between(1, 7));
  out.bucketwise = out.quorum == out.ranks && random.chance(0.5);
  out.interleaved = random.chance(0.8);
  // An element a rank, which only that rank fills; then equal ones, in several pieces and two buckets.
  out.shape.buckets = {{DataType::int64, static_cast<std::uint64_t>(out.ranks) + random.below(40)},
                       {DataType::int64, 1 + random.below(20)}};
  out.shape.order = random.chance(0.5) ? SumOrder::arrival : SumOrder::fixed;
  out.shape.max_lag = static_cast<int>(random.between(1, 4));
  out.shape.piece_bytes = 64;
  return out;
}

/// How often what happened that makes these tests worth something.
struct Coverage {
  std::map<std::string, int> times;
};

class Job {
 public:
  Job(std::uint64_t seed, Coverage& coverage)
      : random_(seed, 1),
        seed_(seed),
        setting_(draw(random_)),
        coverage_(coverage),
        bytes_(PartialMemory::bytes_needed(setting_.shape, setting_.ranks)) {
    for (int rank = 0; rank < setting_.ranks; ++rank) {
      apps_.push_back(std::make_unique<App>(*this, rank));
      steps_.push_back(random_.below(static_cast<std::uint64_t>(setting_.steps) + 1));
      // Some are much slower than others, engine or application.
      for (int part = 0; part < 2; ++part) weights_.push_back(1 + random_.below(random_.chance(0.3) ? 100 : 4));
    }
    next_.resize(static_cast<std::size_t>(setting_.ranks));
  }

  void run() {
    std::uint64_t total = 0;
    for (const auto weight : weights_) total += weight;
    std::size_t stopped = 0;
    for (int i = 0; stopped < apps_.size(); ++i) {
      ASSERT_LT(i, 2'000'000) << "nobody gets on";
      std::uint64_t at = random_.below(total);
      std::size_t who = 0;
      for (; at >= weights_[who]; ++who) at -= weights_[who];
      App& app = *apps_[who / 2];
      if (who % 2 == 0) {
        app.step_engine();
      } else if (app.doing != Doing::stopped) {
        app.step();
        stopped += app.doing == Doing::stopped ? 1 : 0;
      }
      if (testing::Test::HasFatalFailure()) return;
    }
    expect_complete();
  }

 private:
  enum class Doing { computing, depositing, filling, looking, arriving, waiting, draining, finishing, stopped };

  struct App {
    App(Job& owner, int number)
        : job(owner),
          rank(number),
          memory(job.bytes_.bytes(), job.setting_.shape, job.setting_.ranks),
          seat(memory, rank),
          rule(memory, job.setting_.quorum),
          board(
              memory, rank, rule, [&owner](int r) { owner.apps_[static_cast<std::size_t>(r)]->rung = true; },
              job.setting_.interleaved) {}

    bool waits() const {
      return (doing == Doing::waiting && board.complete() == waits_at) ||
             (doing == Doing::finishing && !rule.ended(board.complete()));
    }

    /// Sleeps when there is nothing to do, until its doorbell rings.
    void step_engine() {
      if (asleep && !rung) return;
      if (asleep || pass_begins) rung = false;
      asleep = false;
      const PlanWord before(memory.words().plan.load());
      const bool more = board.step(waits() || job.random_.chance(0.1));
      const PlanWord after(memory.words().plan.load());
      job.coverage_.times["early sums"] += !after.final() && after.sources() > 0 && before.sources() == 0 ? 1 : 0;
      job.coverage_.times["held"] += board.held() ? 1 : 0;
      pass_begins = !more;
      if (more) return;
      if (waits()) {
        asleep = !board.go_in();
      } else {
        board.leave();
        asleep = true;
      }
      job.coverage_.times["sleeps"] += asleep && !rung ? 1 : 0;
    }

    void step();
    void fill(std::size_t bucket) const;
    bool hand_over();

    Job& job;
    const int rank;
    PartialMemory memory;
    PartialSeat seat;
    QuorumRule rule;
    PartialBoard board;
    Doing doing = Doing::computing;
    bool rung = false, asleep = false, pass_begins = true;  // of the engine
    std::optional<PartialSeat::Deposit> deposit;
    int set = 0;
    int deposit_steps = 0;
    std::uint64_t step_number = 0;
    Round handed = 0, waits_at = 0;
  };

  void check(const App& app, Round round);
  void check_first(const App& app, Round round);
  void expect_complete();

  Random random_;
  const std::uint64_t seed_;
  const Setting setting_;
  Coverage& coverage_;
  ZeroMemory bytes_;
  std::vector<std::unique_ptr<App>> apps_;
  std::vector<std::uint64_t> steps_, weights_;
  std::vector<std::uint64_t> next_;          // by rank: deposits in the results so far
  std::vector<std::vector<Bytes>> results_;  // by round: header and buckets
};

void Job::App::fill(std::size_t bucket) const {
  const auto data = memory.data(rank, set, bucket);
  auto* numbers = reinterpret_cast<std::uint64_t*>(data.data());
  const std::uint64_t value = deposited(job.seed_, rank, step_number);
  const auto own = bucket == 0 ? static_cast<std::size_t>(job.setting_.ranks) : 0;
  for (std::size_t i = 0; i < data.size() / 8; ++i)
    numbers[i] = i >= own || i == static_cast<std::size_t>(rank) ? value : 0;
}

bool Job::App::hand_over() {
  if (handed == board.complete()) return false;
  job.check(*this, handed);
  ++handed;
  const bool held = seat.hand_over(handed);
  if (held && board.wake_one() == 0) rung = true;
  job.coverage_.times["handed over what was held"] += held ? 1 : 0;
  return true;
}

void Job::App::step() {
  const bool more = step_number < job.steps_[static_cast<std::size_t>(rank)];
  switch (doing) {
    case Doing::computing: {
      if (!more) {
        doing = Doing::draining;
        return;
      }
      set = seat.acquire();
      for (std::size_t bucket = 0; bucket < 2 && !job.setting_.bucketwise; ++bucket) fill(bucket);
      memory.set(rank, set).facts = {.batches = 1, .samples = 10, .oldest_base = handed, .sum_of_bases = handed};
      memory.set(rank, set).ready.store(job.setting_.bucketwise ? 0 : 2, std::memory_order_relaxed);
      deposit.emplace(seat, set);
      deposit_steps = 0;
      doing = Doing::depositing;
      return;
    }
    case Doing::depositing:
      ++deposit_steps;
      if (!deposit->step()) return;
      job.coverage_.times["deposits made again"] += deposit_steps > 3 ? 1 : 0;
      if (job.setting_.bucketwise) {
        doing = Doing::looking;
        return;
      }
      ++step_number;
      doing = job.random_.chance(0.5) ? Doing::computing : Doing::looking;
      return;
    case Doing::looking:
      if (hand_over()) return;
      waits_at = handed;
      doing = Doing::arriving;
      return;
    case Doing::arriving:
      // The round may have begun, or be over, by now.
      seat.arrive(waits_at, 1000 + static_cast<std::int64_t>(waits_at));
      doing = job.setting_.bucketwise ? Doing::filling : Doing::waiting;
      rung = true;
      return;
    case Doing::filling: {
      auto& ready = memory.set(rank, set).ready;
      const int bucket = ready.load(std::memory_order_relaxed);
      fill(static_cast<std::size_t>(bucket));
      ready.store(bucket + 1, std::memory_order_release);
      if (board.wake_helpers() == 0) rung = true;
      if (bucket == 0) return;
      ++step_number;
      doing = Doing::waiting;
      return;
    }
    case Doing::waiting:
      if (board.complete() > waits_at && !hand_over()) doing = Doing::computing;
      return;
    case Doing::draining:
      seat.drain();
      doing = Doing::finishing;
      rung = true;
      return;
    case Doing::finishing:
      if (!hand_over() && rule.ended(handed)) doing = Doing::stopped;
      return;
    case Doing::stopped: return;
  }
}

/// The first rank to be handed a result sees whether it is right, the others whether it is the same.
void Job::check(const App& app, Round round) {
  if (round == results_.size()) {
    results_.emplace_back();
    check_first(app, round);
  }
  std::vector<Bytes> seen;
  const RoundHeader header = app.board.header(round);
  seen.emplace_back(header.wire_bytes());
  header.write(seen.back().data());
  if (!header.empty()) {
    for (std::size_t bucket = 0; bucket < 2; ++bucket) {
      const auto result = app.memory.result(round, bucket);
      seen.emplace_back(result.begin(), result.end());
    }
  }
  if (results_[round].empty()) results_[round] = seen;
  ASSERT_EQ(results_[round], seen) << "seed " << seed_ << ", round " << round << ", rank " << app.rank;
}

void Job::check_first(const App& app, Round round) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_ << ", round " << round);
  const RoundHeader header = app.board.header(round);
  // One rank has planned it, and has asked each seat once.
  std::vector<QuorumRule::Taken> taken;
  for (const auto& other : apps_) {
    for (const auto& entry : other->rule.all_taken()) {
      if (entry.round == round) taken.push_back(entry);
    }
  }
  ASSERT_EQ(taken.size(), apps_.size());
  RoundHeader expected(setting_.ranks);
  expected.arrived = header.arrived;
  expected.drained = header.drained;
  std::vector<std::uint64_t> sums;
  for (int rank = 0; rank < setting_.ranks; ++rank) {
    const auto& entry = taken[static_cast<std::size_t>(rank)];
    ASSERT_EQ(entry.rank, rank);
    sums.push_back(0);
    if (!entry.any) continue;
    ASSERT_GE(entry.facts.batches, 1u);
    coverage_.times["rounds with three deposits of a rank"] += entry.facts.batches >= 3 ? 1 : 0;
    ASSERT_LE(round, entry.facts.oldest_base + static_cast<Round>(setting_.shape.max_lag)) << "too stale";
    enter(expected, round, rank, entry.facts);
    for (std::uint64_t i = 0; i < entry.facts.batches; ++i) {
      sums.back() += deposited(seed_, rank, next_[static_cast<std::size_t>(rank)]++);
    }
  }
  ASSERT_EQ(header, expected);
  ASSERT_TRUE(header.drained.all() || !header.arrived.empty());
  ASSERT_GE((header.arrived | header.drained).count(), setting_.quorum);
  if (header.empty()) return;
  std::uint64_t total = 0;
  for (const auto sum : sums) total += sum;
  for (std::size_t bucket = 0; bucket < 2; ++bucket) {
    const auto result = app.memory.result(round, bucket);
    const auto* numbers = reinterpret_cast<const std::uint64_t*>(result.data());
    for (std::size_t i = 0; i < result.size() / 8; ++i) {
      ASSERT_EQ(numbers[i], bucket == 0 && i < sums.size() ? sums[i] : total)
          << "bucket " << bucket << ", element " << i;
    }
  }
}

void Job::expect_complete() {
  EXPECT_EQ(next_, steps_) << "seed " << seed_ << ": each deposit is in one result";
  std::vector<int> started(results_.size());
  for (const auto& app : apps_) {
    EXPECT_EQ(app->handed, results_.size());
    EXPECT_FALSE(app->seat.pending());
    for (const Round round : app->rule.rounds_started()) ++started[round];
  }
  EXPECT_EQ(started, std::vector<int>(results_.size(), 1)) << "seed " << seed_ << ": each round is started once";
  coverage_.times["rounds"] += static_cast<int>(results_.size());
}

#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t kSeeds = 1000;  // one thread, which that sanitizer makes fifty times slower
#else
constexpr std::uint64_t kSeeds = 4000;
#endif

TEST(PartialBoardRandom, EachDepositIsInOneResultWhateverTheOrderOfSteps) {
  Coverage coverage;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Job(seed, coverage).run();
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  for (const char* what : {"rounds", "early sums", "held", "handed over what was held", "deposits made again", "sleeps",
                           "rounds with three deposits of a rank"}) {
    EXPECT_GE(coverage.times[what], static_cast<int>(kSeeds / 40)) << what;
    RecordProperty(what, coverage.times[what]);
  }
}

}  // namespace
}  // namespace stretto
