#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/imbalance/spec.h"

namespace stretto {

/// How long each rank computed in each step, without what it waited for others: what is measured in one run, whatever
/// its algorithm, and asked of another. Whole steps stay together: where ranks are slow at the same time, that is kept.
class StepTimes {
 public:
  /// `seconds`: ranks × steps, entry step × ranks + rank; each 0 or more. Requires: whole steps, at least one.
  StepTimes(int ranks, std::vector<float> seconds);

  int ranks() const { return ranks_; }
  std::size_t steps() const { return seconds_.size() / static_cast<std::size_t>(ranks_); }
  /// Of all ranks in one step.
  std::span<const float> step(std::size_t number) const;

  double mean() const;
  /// Between the first rank of a step and its last, in seconds, in the mean over all steps.
  double skew() const;

  /// Batches a second that no way to train can exceed in making `steps` × ranks batches, 0: of all steps: nobody waits,
  /// messages take no time, and each batch goes to the rank that is done with it first. Each rank computes its steps in
  /// their order, beyond the last from the first on, so that by no moment more of them can be over.
  double ideal_rate(std::uint64_t steps = 0) const;

  /// So many steps, as a run of another day may have them: blocks of `block` steps that follow one another, drawn with
  /// replacement (a moving-block bootstrap). What lasts for some steps lasts as long.
  StepTimes resampled(std::uint64_t seed, std::size_t steps, std::size_t block) const;
  /// The times of each step `factor` times as far from their mean, but never below 0: without factor 1 another skew.
  StepTimes with_skew(double factor) const;
  /// Each time longer by what is drawn for it from an exponential distribution of that mean, in seconds: no two ranks
  /// compute alike, and who comes first decides which contributions are fresh.
  StepTimes with_noise(std::uint64_t seed, double mean) const;
  /// Each time longer by so many seconds, 0 or more.
  StepTimes longer_by(double seconds) const;

  /// Seconds of a step that the ranks spent in collectives, beside what they waited there for the last of them, in the
  /// middle of the measured steps. None where the measurement does not tell, and of times made from others.
  const std::optional<double>& exchange() const { return exchange_; }
  void set_exchange(std::optional<double> seconds) { exchange_ = seconds; }

  /// Notes for a person on how the times were read; mostly empty, and of times made from others.
  const std::vector<std::string>& notes() const { return notes_; }
  void add_note(std::string note) { notes_.push_back(std::move(note)); }

  /// As a file that Imbalance reads as trace:FILE.
  std::string to_csv() const;

 private:
  int ranks_;
  std::vector<float> seconds_;
  std::optional<double> exchange_;
  std::vector<std::string> notes_;
};

/// Ranks that compute for `compute` seconds in each step, and are slow as `imbalance` draws it.
StepTimes drawn_step_times(const Imbalance& imbalance, double compute, int ranks, std::size_t steps,
                           std::uint64_t seed);
/// Ranks that compute in each step as many seconds as one of `computed`, drawn for each of them if there are several,
/// and are slow likewise. Requires: `computed` is not empty.
StepTimes drawn_step_times(const Imbalance& imbalance, std::span<const double> computed, int ranks, std::size_t steps,
                           std::uint64_t seed);

/// Hears how many bytes of a file have been read, of how many. Empty: nobody does.
using ReadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Reads step times: of a CSV file of rows step,rank,seconds in any order; of the records of a run in its folder; or of
/// traces (traces.h): a folder with those of PyTorch's profiler, one file *.json or *.json.gz a rank, or a Horovod
/// timeline. The ranks are 0 … the largest there is. Of a long file as many steps are kept
/// as fit into some MiB, evenly over its length. A last step that some ranks have not come to does not count.
///
/// Errc::bad_input names the file and what is wrong with it: a row that is none, a rank without some step, a trace
/// without collectives; Errc::io if it cannot be read.
Result<StepTimes> read_step_times(const std::string& path, const ReadProgress& progress = {});

/// How long one rank computes, and for how many steps it stays slow. A standard normal process whose value at a step is
/// `persistence` times that of the step before, and the rest by chance (AR(1)), says which of `times` a step takes: its
/// quantile for its quantile (a Gaussian copula). So mean and tail are those of the times, however long they last.
struct RankTimesModel {
  double persistence = 0;    ///< φ, from −1 to 1; 0: each step by itself
  std::vector<float> times;  ///< seconds, ascending; at least one
};

/// Step times for any number of ranks like those of a few that were measured. Each rank is one of theirs, of which all
/// have their turn before one comes again, in an order that is drawn; but what ranks had in common in a step is not
/// kept: they are slow independently of each other. StepTimes::resampled() keeps that, for as many ranks as were
/// measured.
struct StepTimesModel {
  std::vector<RankTimesModel> ranks;  ///< at least one

  /// Of every rank by itself. φ is 2 sin(π ρ / 6), ρ being the correlation of the ranks of its times with those of the
  /// steps after (Spearman's), for which a normal process with φ has that ρ.
  static StepTimesModel fit(const StepTimes& measured);

  /// Repeats to the bit.
  StepTimes draw(int num_ranks, std::size_t steps, std::uint64_t seed) const;
};

/// Takes times one by one, in any order, and keeps as many steps as fit into its memory: of more every second stretch
/// of ten steps that follow one another, and again of these.
class CollectedTimes {
 public:
  /// `source` is what messages name: a file, a folder.
  explicit CollectedTimes(std::string source) : source_(std::move(source)) {}

  /// Takes the time of a step on a rank. Returns what is wrong with it; empty where nothing is. Requires: rank and
  /// seconds are not negative.
  std::string take(std::uint64_t step, int rank, double seconds);

  /// Errc::bad_input where a rank has no time of some step; a last step that some ranks have not come to does not
  /// count.
  Result<StepTimes> result();

 private:
  Error wrong(const std::string& what) const;
  bool is_whole(const std::vector<float>& row) const;
  bool stays(std::uint64_t step) const;
  void thin_out();

  const std::string source_;
  int ranks_ = 0;
  std::uint64_t stride_ = 1;  // of stretches
  std::size_t kept_ = 0;
  std::map<std::uint64_t, std::vector<float>> rows_;  // by step
};

}  // namespace stretto
