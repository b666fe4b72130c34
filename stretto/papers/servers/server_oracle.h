#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "stretto/check/harness/job_search.h"
#include "stretto/papers/servers/parameter_server.h"

namespace stretto {

/// A simulated job of a ParameterServer.
struct ServerJob {
  ServerOptions options;
  int ranks = 1;
  std::vector<std::uint64_t> elements;            ///< of each bucket: int64, at least 2
  std::vector<std::vector<std::uint64_t>> steps;  ///< of each phase and rank
  bool overlapped = false;                        ///< buckets are pushed one after the other, during the computation

  /// Steps of a rank before a phase; of all of them where there are as many.
  std::uint64_t steps_before(std::size_t phase, int rank) const;
  /// In sync, versions before a phase: one for each step of the rank that makes most.
  Version versions_before(std::size_t phase) const;
  /// The phase of a rank's step. Requires: it makes that step.
  std::size_t phase_of(int rank, std::uint64_t step) const;
};

/// Knows what every value must be, and checks what servers take and ranks are answered. A value's first element counts
/// its versions; each other one is the sum, modulo 2^64, of numbers that belong to bucket, rank, step and element: so a
/// value shows exactly which gradients it contains. A step that is passed counts as a gradient of zeros, but that
/// servers do not count it.
class ServerOracle final : public ServerObserver {
 public:
  ServerOracle(const ServerJob& job, JobFinding& finding);

  /// Writes the gradient of a step.
  void fill(int bucket, int rank, std::uint64_t step, std::span<std::int64_t> gradient) const;
  /// A rank is about to push a gradient of its next step, and computed it on the values of answered(), or the first.
  void pushes(int bucket, int rank);
  /// The same of a step that it passes, in all buckets: without a gradient.
  void passes(int bucket, int rank);
  /// A rank has the values it has asked for, one span a bucket.
  void answered(int rank, std::span<const std::span<const std::int64_t>> values);
  /// A rank has ended its next phase with these values.
  void settled(int rank, std::span<const std::span<const std::int64_t>> values);
  /// A rank that has settled and not gone on has moved a bucket that it serves up to this value.
  void served(int rank, int bucket, std::span<const std::int64_t> value);
  /// The job rests, and all ranks have ended; `counts` is the sum over all.
  void over(const ServerCounts& counts);

  void released(int bucket, int rank, std::uint64_t step, Version base, std::optional<Version> into) override;

  void violated(std::string what) { finding_.violated(std::move(what)); }

  std::uint64_t dropped() const { return dropped_; }  ///< gradients
  std::uint64_t stale() const { return stale_; }      ///< taken that were computed on an older version
  std::uint64_t passed() const { return passed_; }    ///< gradients that there are none of, taken or dropped
  std::uint64_t lowered() const { return lowered_; }  ///< versions of fewer than k gradients
  std::uint64_t ahead() const { return ahead_; }      ///< values of k_sync that are newer than the one named
  std::uint64_t too_new() const { return too_new_; }  ///< ssp: answers with steps that the rank itself has not made
  std::uint64_t others_went_on() const {
    return others_went_on_;
  }  ///< served() while another rank pushes the next phase

 private:
  struct Took {
    int rank;
    std::uint64_t step;
    friend bool operator==(const Took&, const Took&) = default;
  };
  struct Bucket {
    std::vector<std::vector<std::uint64_t>> values;  // by version
    std::vector<std::vector<std::uint64_t>> clocks;  // by version, rank: gradients it contains
    std::vector<std::vector<Took>> took;             // by version
    std::vector<std::uint64_t> released;             // by rank: gradients taken or dropped
    std::set<std::pair<int, std::uint64_t>> dropped;
    std::vector<Version> ends;  // by phase that some rank has ended
  };
  struct Rank {
    std::vector<std::uint64_t> pushed;           // by bucket
    std::vector<std::vector<Version>> based_on;  // by bucket, step
    std::set<std::uint64_t> passed;              // steps
    std::size_t phase = 0;
  };

  bool is_passed(int rank, std::uint64_t step) const {
    return ranks_[static_cast<std::size_t>(rank)].passed.contains(step);
  }
  void take(int bucket, const Took& took, Version into);
  void check_whole(int bucket, Version version);
  std::optional<Version> check_value(int rank, int bucket, std::span<const std::int64_t> value);
  void check_answer(int rank, int bucket, Version version, Version named);
  void check_end(std::size_t phase, int bucket, Version version);

  const ServerJob& job_;
  std::vector<Bucket> buckets_;
  std::vector<Rank> ranks_;
  JobFinding& finding_;
  std::uint64_t dropped_ = 0, stale_ = 0, lowered_ = 0, ahead_ = 0, too_new_ = 0, staleness_ = 0, taken_ = 0;
  std::uint64_t others_went_on_ = 0, passed_ = 0;
};

}  // namespace stretto
