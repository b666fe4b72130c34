#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "stretto/predict/measured/step_times.h"
#include "stretto/predict/measured/traces.h"

namespace stretto {
namespace {

constexpr std::string_view kNegotiate = "NEGOTIATE_";
constexpr double kMicrosecond = 1e-6;
constexpr int kMostRanksOfTimeline = 100'000;

/// One tensor, between its negotiation and the end of its collective.
struct Tensor {
  bool negotiating = false;
  int depth = 0;  // begins without an end
};

class Timeline {
 public:
  explicit Timeline(const std::string& file) : times_(file) {}

  std::string take(const ChromeEvent& event) {
    ++events_;
    const bool counts = event.phase == "B" || event.phase == "E" || event.phase == "X";
    if (std::string fault = counts ? fault_of_time(event) : ""; !fault.empty()) return fault;
    Tensor& tensor = tensors_[event.process];
    if (event.phase == "B") return begin(tensor, event);
    if (event.phase == "E") return end(tensor, event);
    if (event.phase == "X" && tensor.negotiating) return arrive(event);
    return {};
  }

  /// The last step counts if its collectives have ended: of a timeline that does not end itself, if they are no fewer
  /// than those of the step before.
  std::string finish(bool ended) {
    if (events_ == 0) return "is a list without events; expected a timeline of Horovod";
    if (collectives_ == 0) return "has no collectives; expected a timeline of Horovod";
    const bool counts = running_ == 0 && (ended || seen_.size() >= before_seen_);
    if (std::string fault = counts ? end_step() : ""; !fault.empty()) return fault;
    return step_ < 2 ? "has no two steps in which all ranks have come; expected a timeline of some steps of training"
                     : std::string();
  }

  Result<StepTimes> result() { return times_.result(); }

 private:
  std::string begin(Tensor& tensor, const ChromeEvent& event) {
    if (tensor.depth++ > 0) return {};
    ++running_;
    tensor.negotiating = event.name.starts_with(kNegotiate);
    if (!tensor.negotiating) return {};
    ++collectives_;
    if (seen_.insert(event.process).second) return {};
    std::string fault = end_step();
    before_seen_ = seen_.size();
    seen_ = {event.process};
    return fault;
  }

  std::string end(Tensor& tensor, const ChromeEvent& event) {
    if (tensor.depth == 0) return text("ends at ", event.at, " us what has not begun");
    if (--tensor.depth > 0) return {};
    --running_;
    if (!tensor.negotiating) end_ = std::max(end_, event.at);
    tensor.negotiating = false;
    return {};
  }

  std::string arrive(const ChromeEvent& event) {
    int rank = -1;
    const auto [rest, error] = std::from_chars(event.name.data(), event.name.data() + event.name.size(), rank);
    if (error != std::errc{} || rest != event.name.data() + event.name.size() || rank < 0 ||
        rank >= kMostRanksOfTimeline)
      return {};
    const auto index = static_cast<std::size_t>(rank);
    if (arrived_.size() <= index) {
      arrived_.resize(index + 1, -std::numeric_limits<double>::infinity());
      came_.resize(index + 1, 0);
    }
    arrived_[index] = std::max(arrived_[index], event.at);
    ++came_[index];
    return {};
  }

  /// Of the step whose collectives are over.
  std::string end_step() {
    if (came_.empty() || std::ranges::count(came_, 0) == static_cast<std::ptrdiff_t>(came_.size())) {
      return "does not say which rank came when; expected one that was written with HOROVOD_CACHE_CAPACITY=0";
    }
    for (std::size_t rank = 1; rank < came_.size(); ++rank) {
      if (came_[rank] == came_[0]) continue;
      return text("step ", step_, ": rank 0 came to ", came_[0], " collectives and rank ", rank, " to ", came_[rank]);
    }
    std::string fault;
    for (std::size_t rank = 0; rank < arrived_.size() && step_ > 0 && fault.empty(); ++rank) {
      fault = times_.take(step_ - 1, static_cast<int>(rank), std::max(0.0, arrived_[rank] - before_) * kMicrosecond);
    }
    ++step_;
    before_ = end_;
    std::ranges::fill(came_, 0);
    std::ranges::fill(arrived_, -std::numeric_limits<double>::infinity());
    return fault;
  }

  CollectedTimes times_;
  std::map<std::int64_t, Tensor> tensors_;
  std::set<std::int64_t> seen_;  // tensors of this step
  std::size_t before_seen_ = 0;  // of the step before
  std::vector<double> arrived_;  // when each rank came with its last tensor of this step
  std::vector<std::uint64_t> came_;
  double end_ = 0;     // of the last collective that is over
  double before_ = 0;  // of the last collective of the step before
  int running_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t collectives_ = 0;
  std::uint64_t step_ = 0;
};

}  // namespace

Result<StepTimes> read_horovod_timeline(const std::string& file, const ReadProgress& progress) {
  Timeline timeline(file);
  const auto read = read_chrome_events(
      file, [&](const ChromeEvent& event) { return timeline.take(event); }, progress);
  if (!read) return read.error();
  if (const std::string fault = timeline.finish(read->ended); !fault.empty()) {
    return Error{Errc::bad_input, text("'", file, "' ", read->cut ? "is cut off, and " : "", fault)};
  }
  auto times = timeline.result();
  if (times && read->cut) times->add_note(cut_note(file));
  return times;
}

}  // namespace stretto
