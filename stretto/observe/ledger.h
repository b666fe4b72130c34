#pragma once

#include <algorithm>
#include <array>
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
#include "stretto/observe/round_header.h"

namespace stretto {

/// The account of one rank, or of all together. A rank that has drained is in none of the counts of contributions
/// unless it still brought something.
struct RankAccount {
  std::uint64_t arrived = 0;  ///< rounds at which its application waited when they started
  std::uint64_t fresh = 0;    ///< contributions computed on the newest weights
  std::uint64_t stale = 0;    ///< contributions with a batch computed on older ones
  std::uint64_t null = 0;     ///< rounds it brought nothing to
  double computed = 0;        ///< seconds, by its own clock, as the next two
  double waited = 0;          ///< seconds at rounds, for other ranks
  double late = 0;            ///< seconds between the start of rounds that went on without it and its next deposit
  double lost = 0;            ///< seconds the other ranks waited because of it
};

/// How stale batches were, or buckets of them, in an algorithm's own unit. Needs no memory beyond itself.
struct Ages {
  static constexpr std::size_t kBins = 32;  ///< entries
  std::array<std::uint64_t, kBins> bins{};  ///< entry s: those of staleness s; the last one also those above
  std::uint64_t sum = 0;                    ///< of all of them
  std::uint64_t largest = 0;                ///< of any

  /// One more.
  void add(std::uint64_t age) {
    ++bins[std::min<std::uint64_t>(age, kBins - 1)];
    sum += age;
    largest = std::max(largest, age);
  }
  /// Adds the ages of another rank.
  void add(const Ages& other) {
    for (std::size_t bin = 0; bin < kBins; ++bin) bins[bin] += other.bins[bin];
    sum += other.sum;
    largest = std::max(largest, other.largest);
  }
  /// How many there are.
  std::uint64_t count() const {
    std::uint64_t all = 0;
    for (const std::uint64_t bin : bins) all += bin;
    return all;
  }
};

/// An algorithm's own counts of its batches, where no header of a round has them: parameter servers, which take the
/// buckets of a gradient one by one and may drop it; models that other ranks change while a rank computes; replicas
/// that apply the newest round alone.
struct OwnCounts {
  std::uint64_t buckets = 0;    ///< of a gradient that servers take; 0: there are none
  std::uint64_t taken = 0;      ///< buckets that servers have moved weights by
  std::uint64_t dropped = 0;    ///< buckets that servers have thrown away
  std::uint64_t passed = 0;     ///< batches in rounds that the rank's replica has not applied (delivery latest)
  Ages ages;                    ///< of batches, or buckets of them, whose staleness is known
  std::uint64_t own_steps = 0;  ///< that have moved a rank's own model, where ranks average theirs
  /// The movement of how many of these the mean of all models has kept, in millionths.
  std::uint64_t kept_millionths = 0;

  /// Adds the counts of another rank.
  void add(const OwnCounts& other);
  static constexpr std::size_t kNumbers = 8 + Ages::kBins;                ///< of all fields
  std::array<std::uint64_t, kNumbers> numbers() const;                    ///< the fields, as of() takes them
  static OwnCounts of(std::span<const std::uint64_t, kNumbers> numbers);  ///< those that numbers() has given
};

/// The headers of a run, added up: which ranks were late, how long others waited for them, and what became of all
/// contributions. Every rank can keep one and all are equal. One thread.
///
/// Time lost: while ranks wait at a round, those that have not come share the blame for the others' waiting equally.
/// A rank's wait at a round is known from the header of its next contribution, so it is booked then.
class Ledger {
 public:
  /// Of a job of `ranks`; throws UsageError below 1. `hosts`: of each rank the name of its host, which is told beside
  /// the rank; empty where all are on one.
  explicit Ledger(int ranks, std::vector<std::string> hosts = {});

  /// Books the header of round `round`, `seconds` after the start. `policy` is the word in which the round's policy
  /// travels. Requires: rounds come in order, of a job of as many ranks. After close() they begin anew.
  void add(std::uint64_t round, std::uint64_t policy, const RoundHeader& header, double seconds);

  /// The job has had members of more numbers: from now on headers are of so many. Without effect where there are.
  void grow(int ranks);

  /// Books the waits at the last rounds, as far as they are known. Call when no more rounds come, or when their numbers
  /// begin again with 0.
  void close();

  /// Batches that all ranks together deposited, those of them that no round had taken at the end, and what the
  /// algorithm counts by itself.
  void set_deposits(std::uint64_t made, std::uint64_t pending, const OwnCounts& counts = {});

  int ranks() const { return static_cast<int>(accounts_.size()); }  ///< of the job
  const std::vector<std::string>& hosts() const { return hosts_; }  ///< of each rank, as given
  std::uint64_t rounds() const { return rounds_; }                  ///< booked
  std::uint64_t empty_rounds() const { return empty_rounds_; }      ///< of these, to which nobody brought anything
  std::uint64_t batches() const { return batches_; }                ///< in these, applied or dropped
  std::uint64_t applied() const;                                    ///< batches that have moved the weights
  std::uint64_t dropped() const;                                    ///< batches that servers have thrown away
  std::uint64_t samples() const { return samples_; }                ///< in these batches
  double passed_over() const;                  ///< batches applied that a replica has not, on average
  double seconds() const { return seconds_; }  ///< from the start to the last round booked
  /// The account of one rank. Requires: 0 ≤ rank < ranks().
  const RankAccount& of(int rank) const { return accounts_[static_cast<std::size_t>(rank)]; }
  /// Of all ranks, including those that headers count without naming them.
  RankAccount total() const;
  /// Rounds whose headers do not name every rank. They count in total() alone. Times, time lost, and how many ranks
  /// brought nothing are not known of them.
  std::uint64_t rounds_without_names() const { return rounds_without_names_; }
  /// RankAccount::lost of each rank.
  std::vector<double> lost_seconds() const;

  /// Staleness per batch, in rounds, or as the algorithm counts it by itself; 0 without batches. Mean and largest are
  /// exact; of batches that are neither fresh nor the oldest of their round the headers have only the sum, which the
  /// histogram spreads evenly.
  double staleness_mean() const;
  /// The largest staleness of a batch, likewise.
  std::uint64_t staleness_max() const { return counts_.ages.count() > 0 ? counts_.ages.largest : staleness_max_; }
  /// Smallest staleness in rounds that at least this share of the batches does not exceed.
  std::uint64_t staleness_quantile(double share) const;
  /// Entry s: batches of staleness s, likewise; the last entry also those above. Of buckets that servers take the
  /// entries are batches, too, divided by largest remainders: they add up to the number of batches.
  std::vector<std::uint64_t> staleness_histogram() const;

  /// Deposits that are neither applied nor dropped nor pending: 0, or a defect (negative: something was applied twice).
  std::int64_t lost_deposits() const;

  /// The movement of how many of the deposits the mean of all ranks' models has kept, where ranks average models and
  /// the algorithm counts it.
  std::optional<double> kept() const;

  /// The account of the rounds booked, without set_deposits(), as numbers for a rank that comes to the job.
  std::vector<std::uint64_t> numbers() const;
  /// In place of what is booked here: numbers() of another rank's. Errc::bad_input, and nothing changes, where they are
  /// none.
  Result<void> take_over(std::span<const std::uint64_t> numbers);

  /// Turns a policy word into a name, for printing.
  using PolicyName = std::function<std::string(std::uint64_t)>;
  /// A table for people, several lines.
  std::string to_text(const PolicyName& name = {}) const;
  /// One JSON object.
  std::string to_json(const PolicyName& name = {}) const;

 private:
  /// A round at which ranks waited, kept until the wait of each of them is known. Its memory is that of rounds before.
  struct Waiting {
    std::uint64_t round = 0;
    RankSet arrived, drained;
    std::vector<double> waits;  // per rank; negative: not known yet
    int unknown = 0;
  };

  void add_without_names(const RoundHeader& header);
  std::vector<std::uint64_t> all_numbers() const;
  template <class Visit, class Self>
  static void visit_counts(Visit& visit, Self& self);
  std::span<Waiting> waiting() { return std::span(waiting_).first(num_waiting_); }
  void book_staleness(std::uint64_t round, const RoundHeader& header);
  void book_wait(int rank, double seconds);
  void blame(const Waiting& waiting);
  void make_room();
  void forget_first_waiting();
  std::map<std::string, std::uint64_t> rounds_by_policy(const PolicyName& name) const;

  /// "3", or "3 (h1)".
  std::string shown(int rank) const;
  /// The host whose ranks have cost the others most, as a line; empty where there is one host, or nobody waited.
  std::string costliest_host(double lost_in_all) const;

  std::vector<RankAccount> accounts_;
  std::vector<std::string> hosts_;  // fixed after construction
  RankAccount unnamed_;             // counts alone
  std::uint64_t rounds_without_names_ = 0;
  std::vector<std::uint64_t> last_arrival_;  // per rank: round + 1, or 0
  std::vector<Waiting> waiting_;             // the first num_waiting_; memory for further ones behind them
  std::size_t num_waiting_ = 0;
  std::vector<std::pair<double, int>> arrivals_;  // of blame()
  std::vector<int> absent_;                       // of blame()
  std::map<std::uint64_t, std::uint64_t> rounds_of_policy_;
  std::vector<std::uint64_t> histogram_;
  std::uint64_t rounds_ = 0, empty_rounds_ = 0, batches_ = 0, samples_ = 0;
  std::uint64_t staleness_sum_ = 0, staleness_max_ = 0;
  std::uint64_t deposits_made_ = 0, deposits_pending_ = 0;
  bool deposits_known_ = false;
  OwnCounts counts_;
  double seconds_ = 0;
};

}  // namespace stretto
