#include "command/bench/link/timed_link.h"

#include <fmt/format.h>

#include <deque>
#include <sstream>

#include "command/cli/own_ranks.h"
#include "command/statistics/statistics.h"
#include "stretto/collective/scheduled_collective.h"
#include "stretto/membership/job.h"
#include "stretto/schedule/builder.h"
#include "stretto/train/job/run.h"

namespace stretto::command {

namespace {

constexpr int kLeastTrips = 5;
constexpr std::size_t kMostTrips = 100'000;
constexpr float kGoOn = 1, kStop = 2;  // the first value of what rank 0 sends

/// Rank 0 sends a message to rank 1, which sends one back: when it has got it, or at the same time.
Schedule there_and_back(int rank, std::uint64_t count, Ways ways) {
  ScheduleBuilder b(ways == Ways::one ? "there and back" : "both ways", rank, 2);
  const int peer = 1 - rank;
  const BufferId mine = b.buffer("mine", DataType::float32, count);
  const BufferId theirs = b.buffer("theirs", DataType::float32, count);
  if (ways == Ways::one && rank == 1)
    return b.build(b.send(peer, 0, b.whole(mine), {b.recv(peer, 0, b.whole(theirs), {})}));
  return b.build(b.nop({b.send(peer, 0, b.whole(mine), {}), b.recv(peer, 0, b.whole(theirs), {})}));
}

/// One of the two ranks.
class LinkRank {
 public:
  LinkRank(RankContext& context, std::span<const std::uint64_t> sizes, Ways ways)
      : context_(context),
        engine_(context.world().transport(), clock_),
        driver_(engine_, waiting_of(context)),
        ways_(ways) {
    for (const std::uint64_t bytes : sizes) {
      trips_.emplace_back(engine_, there_and_back(context.rank(), bytes / sizeof(float), ways));
    }
  }

  void run(std::span<const std::uint64_t> sizes, Duration time) {
    std::string report = context_.world().transport().name();
    for (std::size_t index = 0; index < sizes.size(); ++index) {
      mine_.assign(sizes[index] / sizeof(float), kGoOn);
      theirs_ = mine_;
      const std::vector<double> trips = context_.rank() == 0 ? send(index, time) : answer(index);
      report += fmt::format(" {} {:.9e}", sizes[index], median(trips) / (ways_ == Ways::one ? 2 : 1));
    }
    if (context_.rank() == 0) context_.report(report);
  }

 private:
  std::vector<double> send(std::size_t index, Duration time) {
    trip(index);  // touches all memory
    std::vector<double> trips;
    const TimePoint end = clock_.now() + time;
    while (trips.size() < kLeastTrips || (clock_.now() < end && trips.size() < kMostTrips)) {
      const TimePoint begin = clock_.now();
      trip(index);
      trips.push_back(seconds(clock_.now() - begin));
    }
    mine_.front() = kStop;
    trip(index);
    return trips;
  }

  std::vector<double> answer(std::size_t index) {
    while (theirs_.front() != kStop) trip(index);
    return {0};
  }

  void trip(std::size_t index) {
    trips_[index]
        .run(driver_, driver_.deadline(kCallTimeout),
             {Argument::in(std::span(mine_)), Argument::out(std::span(theirs_))})
        .or_throw();
  }

  RankContext& context_;
  const SteadyClock clock_;
  Engine engine_;
  std::deque<ScheduledCollective> trips_;  // by size
  EngineDriver driver_;
  const Ways ways_;
  std::vector<float> mine_, theirs_;
};

}  // namespace

Result<TimedLink> measure_link(std::span<const std::uint64_t> sizes, Duration time, Ways ways) {
  if (const auto launched = launched_rank(); launched && launched->ranks != 2) {
    throw UsageError(fmt::format("a link has two ends, and {} has started {} ranks; start two, as in mpirun -n 2",
                                 launched->starter, launched->ranks));
  }
  JobOptions options{.ranks = 2, .tell = [](const std::string&) {}};  // the Error says it
  options.grace_after_loss = std::chrono::seconds(1);
  const auto result = launch(options, [&](RankContext& context) {
    LinkRank(context, sizes, ways).run(sizes, time);
    return 0;
  });
  if (!result) return result.error();
  if (result->interrupted) throw Interrupted("interrupted");
  if (!result->ok()) return Error{Errc::aborted, result->cause, result->first_lost};

  TimedLink link;
  std::istringstream report(result->reports.front());
  report >> link.transport;
  for (TimedTransfer transfer{}; report >> transfer.bytes >> transfer.seconds;) link.transfers.push_back(transfer);
  return link;
}

}  // namespace stretto::command
