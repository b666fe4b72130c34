// A rank is killed at each point on its way from one world to the next, and at others that are rare by chance: ranks as
// processes, of every family of algorithms that goes on.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/membership/changes.h"
#include "stretto/membership/job.h"
#include "stretto/train/loop/loop_batches.h"
#include "stretto/train/loop/own_loop.h"
#include "stretto/train/testing/two_numbers.h"

namespace stretto {
namespace {

constexpr std::uint64_t kBatchesOfJob = 400;
constexpr std::uint64_t kFirstLoss = 10;  // the lost rank's step in which it is killed

/// Where a rank is killed. Up to `begun` the point lies in a change of members, which another rank's loss causes; at
/// `came` and `giving` it is the rank whose model the job begins with.
enum class StopPoint {
  reported,     ///< it has said what it holds, or is about to
  decided,      ///< there is a next view, which it has not entered
  entered,      ///< it is in the next world, with all others
  putting_in,   ///< a little later: they fetch rounds, average, put deposits in
  put_in,       ///< all have done so, and it has not begun
  begun,        ///< it has said that it has begun
  came,         ///< it is in the first world, and nobody has its model yet
  giving,       ///< a little later: others have its weights, and it has not begun
  full_round,   ///< on its way to meet the others
  together,     ///< between meeting and parting
  draining,     ///< it has no batch, and waits for the last round
  last_round,   ///< that is over; it has not said so
  done,         ///< it has said so
  first_place,  ///< rank 0, in a step
  last_child,   ///< the rank that was started last, in a step
  two_at_once,
};
constexpr const char* kNames[] = {"Reported", "Decided",    "Entered",   "PuttingIn", "PutIn",    "Begun",
                                  "Came",     "Giving",     "FullRound", "Together",  "Draining", "LastRound",
                                  "Done",     "FirstPlace", "LastChild", "TwoAtOnce"};

void die() {
  ::kill(::getpid(), SIGKILL);
  ::pause();
}
void die_in(useconds_t microseconds) {
  std::thread([microseconds] {
    ::usleep(microseconds);
    die();
  }).detach();
}

/// A rank's membership, in which the rank is killed at a point once it is in its second world.
class StoppedChanges final : public Changes {
 public:
  StoppedChanges(Changes& changes, std::optional<StopPoint> point, useconds_t after)
      : changes_(changes), point_(point), after_(after) {}

  const Clock& clock() const override { return changes_.clock(); }
  const View& view() const override { return changes_.view(); }
  MemberNumber number() const override { return changes_.number(); }
  int place() const override { return changes_.place(); }
  int most() const override { return changes_.most(); }
  void holds(std::function<Holding()> holding) override {
    if (point_ != StopPoint::reported || !holding) return changes_.holds(std::move(holding));
    changes_.holds([this, holding = std::move(holding)] {
      die_in(after_);
      return holding();
    });
  }
  bool changing() const override { return changes_.changing(); }
  void enter() override {
    if (point_ == StopPoint::decided) {
      ::usleep(5000 + after_);  // the master decides without this call
      die();
    }
    changes_.enter();
    if (point_ == StopPoint::entered) die();
    if (point_ == StopPoint::putting_in) die_in(after_);
  }
  bool begin() override {
    const bool again = std::exchange(had_begun_, true);
    if (again && point_ == StopPoint::put_in) die();
    const bool begun = changes_.begin();
    if (again && point_ == StopPoint::begun) die();
    return begun;
  }
  bool finish() override {
    if (point_ == StopPoint::last_round) die();
    if (point_ == StopPoint::done) die_in(after_);
    return changes_.finish();
  }
  bool told_to_leave() const override { return changes_.told_to_leave(); }
  void leave() override { changes_.leave(); }
  void require_master() const override { changes_.require_master(); }
  void waits(bool does) override { changes_.waits(does); }
  void handed_over(std::uint64_t batches) override { changes_.handed_over(batches); }
  std::optional<std::uint64_t> take(std::uint64_t batches, std::uint64_t plan) override {
    return changes_.take(batches, plan);
  }

 private:
  Changes& changes_;
  const std::optional<StopPoint> point_;
  const useconds_t after_;
  bool had_begun_ = false;
};

class StoppedContext final : public RankContext {
 public:
  StoppedContext(RankContext& context, std::optional<StopPoint> point, useconds_t after)
      : context_(context), changes_(*context.changes(), point, after) {}
  int local_rank() override { return context_.local_rank(); }
  World& world() override { return context_.world(); }
  SharedCounter& counter(int index) override { return context_.counter(index); }
  std::span<std::byte> extra() override { return context_.extra(); }
  Changes* changes() override { return &changes_; }
  bool interrupted() override { return context_.interrupted(); }
  void report(std::string text) override { context_.report(std::move(text)); }
  void complain(const Error& error) override { context_.complain(error); }

 private:
  RankContext& context_;
  StoppedChanges changes_;
};

using StopCase = std::tuple<const char*, StopPoint, useconds_t>;

class StopPoints : public testing::TestWithParam<StopCase> {
 protected:
  static bool is_in_change(StopPoint point) { return point <= StopPoint::begun; }
  /// The places of ranks that are killed in a step, the last one first.
  static std::vector<int> killed_in_step(StopPoint point) {
    if (is_in_change(point) || point == StopPoint::last_child) return {3};
    if (point == StopPoint::first_place) return {0};
    if (point == StopPoint::two_at_once) return {3, 1};
    return {};
  }
  static std::optional<int> killed_at_point(StopPoint point) {
    if (point >= StopPoint::first_place) return std::nullopt;
    return point == StopPoint::came || point == StopPoint::giving ? 0 : 2;
  }
  static std::string train(RankContext& given, const char* algorithm, StopPoint point, useconds_t after);
};

std::string StopPoints::train(RankContext& given, const char* algorithm, StopPoint point, useconds_t after) {
  const int place = given.changes()->place();
  const bool is_stopped = killed_at_point(point) == place;
  StoppedContext context(given, is_stopped ? std::optional(point) : std::nullopt, after);
  (void)context.rank();  // comes to the job
  if (is_stopped && point == StopPoint::came) after == 0 ? die() : die_in(after);
  const std::vector<int> in_step = killed_in_step(point);
  const bool is_lost = std::ranges::find(in_step, place) != in_step.end();
  TwoNumbers replica{0};
  DistributedOptions options;
  options.algorithm = algorithm;
  LoopHooks hooks;
  if (is_stopped && point == StopPoint::giving) {
    hooks.state = [after] {
      after == 0 ? die() : die_in(after);
      return std::string();
    };
  }
  OwnLoop loop(context, replica, options, hooks);
  double sum = 0;
  loop.on_round([&](const RoundResult& result) {
    if (!result.empty() && loop.session().recipe().averages_gradients()) sum += result.as<float>(0)[0];
  });
  loop.begin();
  LoopBatches batches(context, loop.session());
  const auto pool = batches.make(
      {.samples = kBatchesOfJob, .batch = 1, .ranks = loop.session().most_ranks(), .epochs = 1}, Sharing::shared);
  pool->at_end([&] {
    if (is_stopped && point == StopPoint::draining) after == 0 ? die() : die_in(after);
    return loop.drain();
  });
  std::uint64_t steps = 0;
  while (const auto batch = pool->next()) {
    loop.begin_step();
    if (is_lost && steps == kFirstLoss) die();
    ::usleep(200);
    replica.backward(0, static_cast<float>(batch->sequence + 1));
    loop.step(1);
    if (++steps % 25 != 0) continue;
    if (is_stopped && point == StopPoint::full_round) die_in(after);
    loop.meet();
    if (is_stopped && point == StopPoint::together) die();
    loop.part();
  }
  loop.finish();
  std::string wrong;
  constexpr auto kAll = static_cast<double>(kBatchesOfJob) * (kBatchesOfJob + 1) / 2;
  if (loop.applied() != kBatchesOfJob) wrong += text(loop.applied(), " batches applied; ");
  if (loop.session().recipe().averages_gradients() && sum != kAll) wrong += text("sum ", sum, "; ");
  if (!loop.identical()) wrong += "replicas differ; ";
  return wrong;
}

TEST_P(StopPoints, TheOthersGoOn) {
  const auto [algorithm, point, after] = GetParam();
  ::alarm(100);
  std::string told;
  const auto tell = [&told](const std::string& line) { told += line + "\n"; };
  const auto job = run_job({.ranks = 4, .least = 1, .tell = tell}, [](RankContext& context) {
                     const auto [algorithm, point, after] = GetParam();
                     context.report("good" + train(context, algorithm, point, after));
                     return 0;
                   }).or_throw();
  ::alarm(0);
  EXPECT_TRUE(job.reached_end) << job.cause;
  std::vector<int> killed = killed_in_step(point);
  if (const auto place = killed_at_point(point)) killed.push_back(*place);
  const bool may_have_ended = point == StopPoint::done || (point == StopPoint::draining && after > 0);
  for (int place = 0; place < 4; ++place) {
    const auto at = static_cast<std::size_t>(place);
    const int status = job.exit_status[at];
    if (std::ranges::find(killed, place) == killed.end()) {
      EXPECT_EQ(job.reports[at], "good") << "rank " << place << " ended with " << status << ":\n" << told;
    } else if (!may_have_ended || status != 0) {
      EXPECT_EQ(status, 128 + SIGKILL) << "rank " << place << ":\n" << told;
    }
  }
}

std::vector<StopPoint> all_points() {
  std::vector<StopPoint> points;
  for (std::size_t i = 0; i < std::size(kNames); ++i) points.push_back(static_cast<StopPoint>(i));
  return points;
}

constexpr const char* kAlgorithms[] = {
    "sync",         "eager-quorum", "eager-solo", "eager-deadline:1,1ms", "diloco:quorum:2",
    "wagma-quorum", "local",        "ad-psgd"};
std::string name_of_case(const testing::TestParamInfo<StopCase>& one) {
  const auto [algorithm, point, after] = one.param;
  std::string name = text(algorithm, kNames[static_cast<std::size_t>(point)], after);
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
}

INSTANTIATE_TEST_SUITE_P(At, StopPoints,
                         testing::Combine(testing::ValuesIn(kAlgorithms), testing::ValuesIn(all_points()),
                                          testing::Values(0)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Behind, StopPoints,
                         testing::Combine(testing::ValuesIn(kAlgorithms), testing::ValuesIn(all_points()),
                                          testing::Values(60, 250)),
                         name_of_case);

}  // namespace
}  // namespace stretto
