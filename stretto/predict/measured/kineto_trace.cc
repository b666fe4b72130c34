#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "stretto/predict/measured/step_times.h"
#include "stretto/predict/measured/traces.h"

namespace stretto {
namespace {

constexpr std::string_view kStep = "ProfilerStep#";
constexpr std::string_view kCall = "c10d::";
constexpr std::string_view kForward = "DistributedDataParallel.forward";
constexpr std::string_view kOnDevice = "gpu_user_annotation";  // a mark of the host, where the device has come to it
constexpr std::array<std::string_view, 3> kOnHost = {"gloo:", "mpi:", "ucc:"};
constexpr double kMicro = 1e-6;

/// Microseconds on the clock of one rank.
struct Span {
  double begin = 0, end = 0;
};

bool is_collective(const ChromeEvent& event) {
  if (event.category == "kernel") return event.name.starts_with("nccl");
  return std::ranges::any_of(kOnHost, [&](std::string_view prefix) { return event.name.starts_with(prefix); });
}

/// A mark at which a step begins.
struct Mark {
  std::uint64_t step = 0;
  double at = 0;
};

/// A step of one rank that has collectives.
struct RankStep {
  std::uint64_t number = 0;
  std::size_t collectives = 0;
  std::optional<double> seconds;  ///< that it computed; none of the first
  double waited = 0;              ///< seconds in its collectives
};

/// From when a rank was not computing to the end of the last of these collectives, by begin. Of those that overlap it
/// waits for the one that has begun last.
double waited(std::span<const Span> collectives) {
  double waited = 0;
  for (std::size_t i = 0; i < collectives.size();) {
    double end = collectives[i].end;
    std::size_t last = i;
    while (last + 1 < collectives.size() && collectives[last + 1].begin < end) {
      end = std::max(end, collectives[++last].end);
    }
    waited += end - collectives[last].begin;
    i = last + 1;
  }
  return waited;
}

/// What counts of the trace of one rank.
class RankTrace {
 public:
  /// What is wrong; empty where nothing is.
  std::string take(const ChromeEvent& event) {
    if (event.phase != "X") return {};
    if (std::string fault = fault_of_time(event); !fault.empty()) return fault;
    if (std::isnan(event.length)) {
      return text("has the event '", event.name, "' without its length; expected microseconds as the number dur");
    }
    if (event.length < 0) {
      return text("has the event '", event.name, "' of ", event.length, " us; expected 0 or more");
    }
    if (is_collective(event)) {
      collectives_.push_back({event.at, event.at + event.length});
    } else if (event.name.starts_with(kCall)) {
      calls_.push_back(event.at);
    } else if (event.name == kForward && event.category != kOnDevice) {
      forwards_.push_back({forwards_.size(), event.at});
    } else if (event.name.starts_with(kStep)) {
      const auto number = std::string_view(event.name).substr(kStep.size());
      Mark mark{0, event.at};
      std::from_chars(number.data(), number.data() + number.size(), mark.step);
      (event.category == kOnDevice ? device_steps_ : steps_).push_back(mark);
    }
    return {};
  }

  bool has_collectives() const { return !collectives_.empty(); }

  /// From the end of a step's last collective, which all ranks reach together, to that of the next step. So the first
  /// step has no time. Empty where no step is marked.
  std::vector<RankStep> steps(bool cut) {
    begin_with_calls(cut);
    std::vector<RankStep> steps;
    std::optional<double> before;
    const std::vector<Mark> marks = this->marks();
    for (std::size_t i = 0; i < marks.size(); ++i) {
      const auto from = std::ranges::lower_bound(collectives_, marks[i].at, {}, &Span::begin);
      const auto to = i + 1 == marks.size() ? collectives_.end()
                                            : std::ranges::lower_bound(collectives_, marks[i + 1].at, {}, &Span::begin);
      const std::span<const Span> all(from, to);
      if (all.empty()) continue;
      const double end = std::ranges::max_element(all, {}, &Span::end)->end;
      const double waited = stretto::waited(all);
      steps.push_back({.number = marks[i].step, .collectives = all.size(), .seconds = {}, .waited = waited * kMicro});
      if (before) steps.back().seconds = std::max(0.0, end - *before - waited) * kMicro;
      before = end;
    }
    return steps;
  }

 private:
  /// In order of time; of the device, where it has some: its kernels come later than the host's calls.
  std::vector<Mark> marks() const {
    std::vector<Mark> marks = !device_steps_.empty() ? device_steps_ : !steps_.empty() ? steps_ : forwards_;
    std::ranges::sort(marks, {}, &Mark::at);
    return marks;
  }

  /// A collective of the host waits for a thread of its own: the rank has brought what is to be sent when it has called
  /// it. Where there is a call for each, or the trace is cut off, the collective begins with it.
  void begin_with_calls(bool cut) {
    std::ranges::sort(collectives_, {}, &Span::begin);
    if (!cut && calls_.size() != collectives_.size()) return;
    std::ranges::sort(calls_);
    for (std::size_t i = 0; i < std::min(calls_.size(), collectives_.size()); ++i) {
      collectives_[i].begin = std::min(collectives_[i].begin, calls_[i]);
    }
  }

  std::vector<Span> collectives_;
  std::vector<double> calls_;
  std::vector<Mark> steps_, device_steps_, forwards_;
};

class Traces {
 public:
  explicit Traces(std::string source) : source_(std::move(source)), times_(source_) {}

  Result<void> read(const std::string& file, const ReadProgress& progress) {
    RankTrace trace;
    const auto job = read_chrome_events(
        file, [&](const ChromeEvent& event) { return trace.take(event); }, progress);
    if (!job) return job.error();
    const auto wrong = [&](const std::string& what) {
      return Error{Errc::bad_input, text("'", file, "' ", job->cut ? "is cut off, and " : "", what)};
    };
    if (!job->rank) return wrong("does not say its rank; expected a trace of a job of torch.distributed");
    const int rank = *job->rank;
    if (const auto [at, is_new] = files_.emplace(rank, file); !is_new) {
      return wrong(text("is a second trace of rank ", rank, ", beside '", at->second, "'"));
    }
    ranks_ = std::max(ranks_, job->ranks.value_or(0));
    if (!trace.has_collectives()) return wrong("has no collectives; expected a trace of training with several ranks");
    std::vector<RankStep> steps = trace.steps(job->cut);
    if (job->cut) {
      if (!steps.empty()) steps.pop_back();
      notes_.push_back(cut_note(file));
    }
    if (steps.size() < 2) {
      return wrong("has no two steps; expected profiler.step() after each, or DistributedDataParallel");
    }
    if (job->cut) last_ = std::min(last_, steps.back().number);
    steps_.emplace_back(rank, std::move(steps));
    return {};
  }

  Result<StepTimes> result() {
    const int ranks = std::max(ranks_, files_.empty() ? 0 : files_.rbegin()->first + 1);
    for (int rank = 0; rank < ranks; ++rank) {
      if (files_.contains(rank)) continue;
      return Error{Errc::bad_input, text("'", source_, "' has no trace of rank ", rank, " of ", ranks,
                                         "; expected the folder that holds one of each")};
    }
    for (const auto& [rank, steps] : steps_) {
      if (const auto taken = take(rank, steps); !taken) return taken.error();
    }
    auto times = times_.result();
    if (times) times->set_exchange(exchange());
    for (const std::string& note : notes_) {
      if (times) times->add_note(note);
    }
    return times;
  }

 private:
  /// The steps of one rank, as far as no trace is cut off.
  Result<void> take(int rank, const std::vector<RankStep>& steps) {
    std::map<std::uint64_t, std::size_t> counts;
    for (const RankStep& step : steps) {
      if (step.number > last_) break;
      counts[step.number] = step.collectives;
      if (!step.seconds) continue;
      const std::string fault = times_.take(step.number, rank, *step.seconds);
      if (!fault.empty()) return Error{Errc::bad_input, text("'", files_.at(rank), "' ", fault)};
      const auto [least, is_new] = least_waited_.emplace(step.number, step.waited);
      if (!is_new) least->second = std::min(least->second, step.waited);
    }
    return agree(rank, std::move(counts));
  }

  /// In the middle of the steps.
  std::optional<double> exchange() const {
    std::vector<double> all;
    for (const auto& [step, waited] : least_waited_) all.push_back(waited);
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::ranges::nth_element(all, middle);
    return *middle;
  }

  /// Every step of all ranks has as many collectives, from the first to the last: a rank that ends earlier than the
  /// others tells of a job that has failed, or is not of theirs.
  Result<void> agree(int rank, std::map<std::uint64_t, std::size_t> counts) {
    if (counts_.empty()) {
      first_rank_ = rank;
      counts_ = std::move(counts);
      return {};
    }
    const auto [ours, its] = std::ranges::mismatch(counts_, counts);
    if (ours == counts_.end() && its == counts.end()) return {};
    const bool lacks = its == counts.end() || (ours != counts_.end() && ours->first < its->first);
    const std::uint64_t step = lacks ? ours->first : its->first;
    const auto of = [step](const std::map<std::uint64_t, std::size_t>& all) {
      const auto found = all.find(step);
      return found == all.end() ? 0 : found->second;
    };
    return Error{Errc::bad_input, text("'", source_, "' step ", step, ": rank ", first_rank_, " has ", of(counts_),
                                       " collectives and rank ", rank, " has ", of(counts))};
  }

  const std::string source_;
  CollectedTimes times_;
  std::map<int, std::string> files_;                                // by rank
  std::vector<std::pair<int, std::vector<RankStep>>> steps_;        // of each rank, as they were read
  std::uint64_t last_ = std::numeric_limits<std::uint64_t>::max();  // that no trace lacks
  std::vector<std::string> notes_;
  int ranks_ = 0;                                 // as the traces say
  int first_rank_ = 0;                            // of those read
  std::map<std::uint64_t, std::size_t> counts_;   // its collectives, by step
  std::map<std::uint64_t, double> least_waited_;  // of all ranks, by step
};

}  // namespace

Result<StepTimes> read_kineto_traces(const std::string& source, const std::vector<std::string>& files,
                                     const ReadProgress& progress) {
  Traces traces(source);
  for (const std::string& file : files) {
    if (const auto read = traces.read(file, progress); !read) return read.error();
  }
  return traces.result();
}

}  // namespace stretto
