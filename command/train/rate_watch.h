#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command/machine/child_processes.h"
#include "stretto/predict/drift/drift.h"
#include "stretto/train/job/run.h"

namespace stretto::command {

/// A stretch of a run in which it was more than a tenth faster or slower than predicted.
struct Drift {
  std::uint64_t batch = 0;          ///< applied when it was noticed
  double second = 0;                ///< since the first step, then
  double rate = 0;                  ///< batches/s, measured then
  std::optional<DriftCause> cause;  ///< none while it is looked for
  std::optional<double> until;      ///< the second it was over; none: it lasted to the end of the run
  double rate_after = 0;            ///< batches/s, measured when it was over

  /// "batch 1210, 12.1 s: 62.1 batches/s, 0.61 of the 101 predicted: rank 3 computes 3.02 times as long".
  std::string to_text(double predicted) const;
};

/// A rate that was predicted from the first steps of a run, beside the one that was measured after them.
struct RatePrediction {
  std::uint64_t steps = 0;  ///< of each rank, in the mean, that it was made from
  double round_cost = 0;    ///< RunInputs::round_cost of these
  double predicted = 0;     ///< batches/s
  double measured = 0;      ///< batches/s, from the end of these steps to the end of the run
  std::vector<Drift> drifts;

  double ratio() const { return measured / predicted; }
  /// Lines for people.
  std::string to_text() const;
};

nlohmann::ordered_json to_json(const RatePrediction& prediction);

/// Watches a run as it goes on: predicts its rate from its first steps, and says when the measured one drifts away from
/// it, why, and when that is over. It lives in the process that watches the ranks. What takes longer than to look at
/// some numbers is left to a BackgroundTask.
class RateWatch {
 public:
  /// The rate of ranks that are occupied for so long in each step. Called in a child process.
  using Simulate = std::function<double(const StepTimes& occupied)>;

  /// From how many steps of each rank a run is predicted, where nobody says. More, if these take less than a second.
  static constexpr std::uint64_t kSteps = 50;
  static constexpr std::uint64_t kFewest = 5;
  /// Steps of each rank in a simulation: enough for its begin and end to change little.
  static constexpr std::uint64_t kSimulated = 200;
  /// Steps of a rank at its start that do not count: caches and pools fill.
  static std::uint64_t left_out(std::uint64_t steps) { return (steps + 9) / 10; }
  /// Steps of each rank that a run must have at least, so that as many are left to be compared.
  static std::uint64_t least(std::uint64_t steps) { return left_out(steps) + 2 * steps; }

  RateWatch(int ranks, std::uint64_t steps, Simulate simulate);

  /// How far the run is: as often as it is known, about ten times a second. Returns lines to be told. Requires:
  /// RunProgress::steps.
  std::vector<std::string> take(const RunProgress& progress);
  /// Batches/s; 0 before it is known.
  double predicted() const { return prediction_.predicted; }
  /// Once the run is over: waits for what is still computed, and returns the lines it adds. `seconds`: from the first
  /// step to the last applied round.
  std::vector<std::string> finish(double seconds);
  /// After finish(); none where there was no prediction, which a line has said.
  std::optional<RatePrediction> prediction() const;

 private:
  struct Mark {
    std::uint64_t batches = 0;
    double seconds = 0;
  };

  void read(const RecentSteps& steps);
  /// The steps since begin_window(), if they are enough.
  void end_window(const Mark& now);
  void begin_window(const Mark& now);
  void ask_for_prediction(double rate);
  void judge(double rate, const Mark& now);
  /// Takes the answer of the task at work, if any.
  void take_answer(const Result<std::string>& answer);

  const int ranks_;
  const std::uint64_t first_steps_;
  const Simulate simulate_;

  std::vector<std::uint64_t> next_;  // step of each rank to read
  StepWindow window_;
  std::optional<Mark> since_;            // the begin of the window; none while the first steps are left out
  Mark last_;                            // of the run, as far as is known
  std::optional<Mark> first_steps_end_;  // from here on rates are compared
  std::optional<RunInputs> first_;       // what is predicted from
  std::optional<DriftDetector> detector_;
  std::optional<BackgroundTask> task_;
  bool gave_up_ = false;

  RatePrediction prediction_;
  std::vector<std::string> lines_;  // to be told
};

}  // namespace stretto::command
