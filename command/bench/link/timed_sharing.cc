#include "command/bench/link/timed_sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <sstream>

#include "command/cli/own_ranks.h"
#include "command/statistics/statistics.h"
#include "stretto/collective/scheduled_collective.h"
#include "stretto/membership/job.h"
#include "stretto/schedule/builder.h"
#include "stretto/train/job/run.h"

namespace stretto::command {

namespace {

constexpr int kRanks = 3;
constexpr std::size_t kLeastRounds = 20, kMostRounds = 10'000;
constexpr double kMostUneven = 10;     // that NetworkOptions::unevenness takes: the first has the card, then the next
constexpr float kGoOn = 1, kStop = 2;  // what rank 0 tells the others with each round

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

class SharingRank {
 public:
  SharingRank(RankContext& context, std::uint64_t count)
      : context_(context),
        engine_(context.transport(), clock_),
        collective_(engine_, two_to_one(context.rank(), count)),
        driver_(engine_, waiting_of(context)),
        messages_(kRanks - 1, std::vector<float>(count)) {
    collective_.on_call([this](std::uint32_t) { received_.push_back(clock_.now()); });
  }

  void run(Duration time) {
    if (context_.rank() != 0) {
      while (go_ != kStop) round();
      return;
    }
    round();  // touches all memory
    std::string report = context_.transport().name();
    const TimePoint end = clock_.now() + time;
    for (std::size_t rounds = 0; rounds < kLeastRounds || (clock_.now() < end && rounds < kMostRounds); ++rounds) {
      const TimePoint begin = clock_.now();
      round();
      report += fmt::format(" {:.9e} {:.9e}", seconds(received_[0] - begin), seconds(received_[1] - begin));
    }
    go_ = kStop;
    round();
    context_.report(report);
  }

 private:
  void round() {
    received_.clear();
    std::span<float> go(&go_, 1);
    std::vector<Argument> arguments = {context_.rank() == 0 ? Argument::in(go) : Argument::out(go)};
    if (context_.rank() == 0) {
      for (std::vector<float>& message : messages_) arguments.push_back(Argument::out(message));
    } else {
      arguments.push_back(Argument::in(messages_.front()));
    }
    collective_.run(driver_, driver_.deadline(kCallTimeout), std::move(arguments)).or_throw();
  }

  RankContext& context_;
  const SteadyClock clock_;
  Engine engine_;
  ScheduledCollective collective_;
  EngineDriver driver_;
  std::vector<std::vector<float>> messages_;
  std::vector<TimePoint> received_;  // written on the driving thread, read when the round is over
  float go_ = kGoOn;
};

}  // namespace

Result<TimedSharing> measure_sharing(std::uint64_t bytes, Duration time) {
  if (const auto launched = launched_rank(); launched && launched->ranks != kRanks) {
    throw UsageError(
        fmt::format("two ranks that share the card of a third are {}, and {} has started {} ranks; start "
                    "three, as in mpirun -n 3",
                    kRanks, launched->starter, launched->ranks));
  }
  JobOptions options{.ranks = kRanks, .tell = [](const std::string&) {}};  // the Error says it
  options.grace_after_loss = std::chrono::seconds(1);
  const auto result = launch(options, [&](RankContext& context) {
    SharingRank(context, bytes / sizeof(float)).run(time);
    return 0;
  });
  if (!result) return result.error();
  if (result->interrupted) throw Interrupted("interrupted");
  if (!result->ok()) return Error{Errc::aborted, result->cause, result->first_lost};

  TimedSharing sharing;
  std::istringstream report(result->reports.front());
  report >> sharing.transport;
  for (SharedTransfer transfer{}; report >> transfer.first >> transfer.last;) sharing.transfers.push_back(transfer);
  return sharing;
}

double fit_unevenness(std::span<const SharedTransfer> transfers) {
  constexpr double kMiddleOfNormal = 0.6744897501960817;  // half of all draws are smaller, without sign
  std::vector<double> logs;
  for (const SharedTransfer& transfer : transfers) {
    // At least what doubles can tell from all of the card, which the first has where the other comes after it.
    const double share = std::min(transfer.last / (2 * transfer.first), 1 - 1e-9);
    logs.push_back(std::abs(std::log(share / (1 - share))));
  }
  const double deviation = median(logs) / kMiddleOfNormal / std::numbers::sqrt2;  // of the logarithm of one weight
  return std::min(kMostUneven, std::sqrt(std::expm1(deviation * deviation)));
}

}  // namespace stretto::command
