#include "command/bench/timed_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numbers>
#include <sstream>

#include "command/cli/own_ranks.h"
#include "command/statistics/statistics.h"
#include "stretto/collective/base/scheduled_collective.h"
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

/// Rank 0's report; nothing in another rank that a launcher has started.
Result<std::string> report_of(int ranks, const RankMain& main, const NamespaceHosts* hosts) {
  if (hosts != nullptr) return report_of_rank_0({.ranks = ranks}, main, hosts);
  JobOptions options{.ranks = ranks, .tell = [](const std::string&) {}};  // the Error says it
  options.grace_after_loss = std::chrono::seconds(1);
  const auto result = launch(options, main);
  if (!result) return result.error();
  if (result->interrupted) throw Interrupted("interrupted");
  if (!result->ok()) return Error{Errc::aborted, result->cause, result->first_lost};
  return result->reports.front();
}

}  // namespace

LinkLine fit_line(std::span<const TimedTransfer> transfers, FitErrors errors) {
  // latency + byte · bytes ≈ seconds, each row weighted: normal equations of the rows (a, b), c.
  double aa = 0, ab = 0, bb = 0, ac = 0, bc = 0;
  for (const auto& [bytes, seconds] : transfers) {
    const double weight = errors == FitErrors::relative ? 1 / seconds : 1;
    const double a = weight;
    const double b = weight * bytes;
    const double c = weight * seconds;
    aa += a * a;
    ab += a * b;
    bb += b * b;
    ac += a * c;
    bc += b * c;
  }
  const double determinant = aa * bb - ab * ab;
  double latency = (bb * ac - ab * bc) / determinant;
  double byte = (aa * bc - ab * ac) / determinant;
  if (latency < 0) {
    latency = 0;
    byte = bc / bb;
  } else if (byte < 0) {
    byte = 0;
    latency = ac / aa;
  }
  return {latency, 1 / byte};
}

Result<TimedLink> measure_link(std::span<const std::uint64_t> sizes, Duration time, Ways ways,
                               const NamespaceHosts* hosts) {
  if (const auto launched = launched_rank(); launched && launched->ranks != 2) {
    throw UsageError(fmt::format("a link has two ends, and {} has started {} ranks; start two, as in mpirun -n 2",
                                 launched->starter, launched->ranks));
  }
  const auto said = report_of(
      2,
      [&](RankContext& context) {
        LinkRank(context, sizes, ways).run(sizes, time);
        return 0;
      },
      hosts);
  if (!said) return said.error();

  TimedLink link;
  std::istringstream report(*said);
  report >> link.transport;
  for (TimedTransfer transfer{}; report >> transfer.bytes >> transfer.seconds;) link.transfers.push_back(transfer);
  return link;
}

namespace {

constexpr int kRanks = 3;
constexpr std::size_t kLeastRounds = 20, kMostRounds = 10'000;
constexpr double kMostUneven = 10;  // that NetworkOptions::unevenness takes: the first has the card, then the next
constexpr float kOneMore = 1, kNoMore = 2;  // what rank 0 tells the others with each round

/// Rank 0 tells the others to begin, and calls as each message has come.
Schedule two_to_one(int rank, std::uint64_t count) {
  ScheduleBuilder b("two to one", rank, kRanks);
  const BufferId go = b.buffer("go", DataType::float32, 1);
  if (rank != 0) {
    const BufferId message = b.buffer("message", DataType::float32, count);
    return b.build(b.send(0, 0, b.whole(message), {b.recv(0, 0, b.whole(go), {})}));
  }
  std::vector<OpId> here;
  for (int peer = 1; peer < kRanks; ++peer) {
    here.push_back(b.send(peer, 0, b.whole(go), {}));
    const BufferId message = b.buffer("message", DataType::float32, count);
    here.push_back(b.call(0, {b.recv(peer, 0, b.whole(message), {})}));
  }
  return b.build(b.nop(here));
}

/// Rounds of one size.
class SharingRounds {
 public:
  SharingRounds(Engine& engine, EngineDriver& driver, const SteadyClock& clock, std::uint64_t count)
      : engine_(engine),
        driver_(driver),
        clock_(clock),
        collective_(engine, two_to_one(engine.rank(), count)),
        messages_(kRanks - 1, std::vector<float>(count)) {
    collective_.on_call([this](std::uint32_t) { received_.push_back(clock_.now()); });
  }

  void take_part() {
    while (go_ != kNoMore) round();
  }

  /// On rank 0: adds what it has measured to `report`.
  void measure(Duration time, std::string& report) {
    round();  // touches all memory
    const TimePoint end = clock_.now() + time;
    for (std::size_t rounds = 0; rounds < kLeastRounds || (clock_.now() < end && rounds < kMostRounds); ++rounds) {
      const TimePoint begin = clock_.now();
      round();
      report += fmt::format(" {} {:.9e} {:.9e}", messages_.front().size() * sizeof(float),
                            seconds(received_[0] - begin), seconds(received_[1] - begin));
    }
    go_ = kNoMore;
    round();
  }

 private:
  void round() {
    received_.clear();
    std::span<float> go(&go_, 1);
    std::vector<Argument> arguments = {engine_.rank() == 0 ? Argument::in(go) : Argument::out(go)};
    if (engine_.rank() == 0) {
      for (std::vector<float>& message : messages_) arguments.push_back(Argument::out(message));
    } else {
      arguments.push_back(Argument::in(messages_.front()));
    }
    collective_.run(driver_, driver_.deadline(kCallTimeout), std::move(arguments)).or_throw();
  }

  Engine& engine_;
  EngineDriver& driver_;
  const SteadyClock& clock_;
  ScheduledCollective collective_;
  std::vector<std::vector<float>> messages_;
  std::vector<TimePoint> received_;  // written on the driving thread, read when the round is over
  float go_ = kOneMore;
};

void measure_on(RankContext& context, std::span<const std::uint64_t> sizes, Duration time) {
  const SteadyClock clock;
  Engine engine(context.world().transport(), clock);
  EngineDriver driver(engine, waiting_of(context));
  std::string report = context.world().transport().name();
  for (const std::uint64_t bytes : sizes) {
    SharingRounds rounds(engine, driver, clock, bytes / sizeof(float));
    if (context.rank() == 0) {
      rounds.measure(time, report);
    } else {
      rounds.take_part();
    }
  }
  if (context.rank() == 0) context.report(report);
}

}  // namespace

Result<TimedSharing> measure_sharing(std::span<const std::uint64_t> sizes, Duration time, const NamespaceHosts* hosts) {
  if (const auto launched = launched_rank(); launched && launched->ranks != kRanks) {
    throw UsageError(
        fmt::format("two ranks that share the card of a third are {}, and {} has started {} ranks; start "
                    "three, as in mpirun -n 3",
                    kRanks, launched->starter, launched->ranks));
  }
  const auto said = report_of(
      kRanks,
      [&](RankContext& context) {
        measure_on(context, sizes, time);
        return 0;
      },
      hosts);
  if (!said) return said.error();

  TimedSharing sharing;
  std::istringstream report(*said);
  report >> sharing.transport;
  for (SharedTransfer transfer{}; report >> transfer.bytes >> transfer.first >> transfer.last;) {
    sharing.transfers.push_back(transfer);
  }
  return sharing;
}

std::vector<SharedSize> by_size(std::span<const SharedTransfer> transfers) {
  struct Times {
    std::vector<double> first, last, apart;
  };
  std::map<std::uint64_t, Times> times;
  for (const SharedTransfer& transfer : transfers) {
    Times& of_size = times[transfer.bytes];
    of_size.first.push_back(transfer.first);
    of_size.last.push_back(transfer.last);
    of_size.apart.push_back(transfer.last - transfer.first);
  }
  std::vector<SharedSize> sizes;
  for (const auto& [bytes, t] : times) {
    sizes.push_back({bytes, median(t.first), median(t.last), median(t.apart), t.first.size()});
  }
  return sizes;
}

Unevenness fit_unevenness(std::span<const SharedTransfer> transfers) {
  constexpr double kMiddleOfNormal = 0.6744897501960817;  // half of all draws are smaller, without sign
  std::vector<TimedTransfer> squares;                     // of how far they are apart, by those of the time of both
  for (const SharedSize& size : by_size(transfers)) {
    squares.push_back({size.last * size.last, size.apart * size.apart});
  }
  const LinkLine line = fit_line(squares, FitErrors::in_seconds);
  const double apart = std::min(std::sqrt(1 / line.bandwidth), 0.5);  // of the time of both
  // At least what doubles can tell from all of the card, which the first has where the other comes after it.
  const double share = std::min(0.5 / (1 - apart), 1 - 1e-9);
  const double deviation =
      std::log(share / (1 - share)) / kMiddleOfNormal / std::numbers::sqrt2;  // of one weight's log
  return {std::min(kMostUneven, std::sqrt(std::expm1(deviation * deviation))), std::sqrt(line.latency)};
}

}  // namespace stretto::command
