#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace stretto {

/// One batch of the job.
struct BatchRef {
  std::uint64_t sequence = 0;              ///< number in the whole job, from 0
  std::uint64_t step = 0;                  ///< the how manieth of the rank that got it, from 0
  std::uint64_t epoch = 0;                 ///< data epoch of its first sample
  std::uint64_t index = 0;                 ///< number among the batches that begin in that epoch
  std::span<const std::uint32_t> samples;  ///< valid until the plan is asked again
  std::uint64_t units = 0;                 ///< of work: samples × the longest of their lengths
};

struct PlanOptions {
  std::uint64_t samples = 0;  ///< in the data set
  int batch = 1;              ///< samples a batch
  int ranks = 1;
  std::uint64_t steps = 0;   ///< steps × ranks batches in all; 0: `epochs` says
  std::uint64_t epochs = 0;  ///< passes over the data in all
  std::uint64_t seed = 0;
  std::vector<std::uint32_t> lengths;  ///< of each sample, e.g. its time steps; empty: 1 each
  bool bucketed = false;               ///< batches of samples of similar length, in shuffled order
  int pool_batches = 0;                ///< bucketed: sort within pools of so many batches; 0: the whole data set
  std::vector<std::uint32_t> labels;   ///< of each sample; of use beside `labels_a_rank` alone
  int labels_a_rank = 0;               ///< each rank has a part of its own, with so many labels at most; 0: none has
};

/// Which samples are in which batch: a function of the options alone, so that every rank computes it alike.
///
/// The job is one long row of samples, data epoch after data epoch, each shuffled anew, cut into batches: the rest of
/// an epoch's last batch is part of the next epoch, no epoch ends with a short batch, and only the job's last batch may
/// be smaller. Bucketed, the parts of a batch that lies across the end of an epoch have similar lengths, too.
/// Keeps the order of the last two epochs. Not thread-safe.
///
/// Along a ring (GossipGraD) each rank has a row of its own instead: it goes through a share of the samples, 1/ranks of
/// them, in the next pass through that of the rank before it, and so on. After as many passes as there are ranks each
/// rank has seen every sample once, and the samples are shared out anew. No sample moves: every rank can read all.
class BatchPlan {
 public:
  /// Throws UsageError (no samples, fewer samples than ranks, no steps and no epochs, lengths of another number, …).
  explicit BatchPlan(PlanOptions options);

  const PlanOptions& options() const { return options_; }
  std::uint64_t num_batches() const { return num_batches_; }

  /// Batch `sequence` of the row. Requires: sequence < num_batches().
  BatchRef batch(std::uint64_t sequence);

  /// Batch `sequence` drawn with replacement, from (seed, rank, step); bucketed: from samples of similar length.
  BatchRef sampled(std::uint64_t sequence, int rank, std::uint64_t step);

  /// Batch `sequence` along a ring: the next of rank `sequence` mod ranks. What does not fill a last batch of every
  /// rank is put together, rank after rank, in the job's last batches, so that there are num_batches(). Its epoch is
  /// that of its place in the job. Requires: as of batch().
  BatchRef ring(std::uint64_t sequence);
  /// Whether ranks have parts of their own (label_parts.h).
  bool has_parts() const { return !parts_.empty(); }
  /// Batch `sequence` as the `step`-th of a rank's own part, which it goes round in, in another order each time.
  /// `epoch` and `index` are those in the part. Requires: has_parts().
  BatchRef of_part(std::uint64_t sequence, int rank, std::uint64_t step);

 private:
  struct EpochOrder {
    std::uint64_t epoch = ~std::uint64_t{0};
    std::vector<std::uint32_t> samples;
  };

  /// A pass of a rank along the ring.
  struct RingPass {
    std::uint64_t number = ~std::uint64_t{0};
    std::uint64_t begin = 0;  // in the rank's row
    std::vector<std::uint32_t> samples;
  };

  const std::vector<std::uint32_t>& order_of(std::uint64_t epoch);
  std::uint64_t first_passes(std::uint64_t rank, std::uint64_t passes) const;
  std::uint64_t row_length(std::uint64_t rank) const;
  const RingPass& ring_pass(std::uint64_t rank, std::uint64_t at);
  void append_row(std::uint64_t rank, std::uint64_t from, std::uint64_t to);
  std::vector<std::uint32_t> shuffled(std::uint64_t epoch) const;
  void sort_by_length(std::vector<std::uint32_t>& order) const;
  std::vector<std::uint32_t> bucketed(std::uint64_t begin, std::uint64_t border,
                                      std::vector<std::uint32_t> order) const;
  BatchRef describe(std::uint64_t sequence) const;
  BatchPlan plan_of_part(int rank) const;

  const PlanOptions options_;
  std::uint64_t num_samples_ = 0;  // in all epochs
  std::uint64_t num_batches_ = 0;
  std::array<EpochOrder, 2> orders_;                       // by parity of the epoch
  std::vector<std::uint32_t> by_length_;                   // all samples; made when first needed
  std::vector<std::uint32_t> batch_;                       // the one handed out last
  std::optional<std::uint64_t> whole_;                     // ring: whole batches that each rank has; made when needed
  EpochOrder shared_out_;                                  // ring: the samples as they were last shared out
  std::vector<std::array<RingPass, 2>> passes_;            // ring: of each rank, by parity
  std::vector<std::vector<std::uint32_t>> parts_;          // of each rank; empty: there are none
  std::vector<std::pair<int, BatchPlan>> plans_of_parts_;  // of the ranks asked for so far, whose samples are places
};

/// Parts of a data set, one for each rank, that have at most `most` of the labels each: a function of the arguments
/// alone. Every sample is in one part.
///
/// The samples stand in a row, label after label, both in an order drawn from the seed. The row is cut into pieces of
/// equal size, m for each rank, which are dealt as the seed says; pieces in which two labels meet go to different ranks
/// as far as possible. m is most - 1, or less where some rank would then see more labels than it may. Parts differ by
/// m samples at most.
///
/// Throws UsageError where no m will do, with a number of labels that will. Requires: ranks ≥ 1, most ≥ 1, a sample or
/// more for each rank.
std::vector<std::vector<std::uint32_t>> parts_by_label(std::span<const std::uint32_t> labels, int ranks, int most,
                                                       std::uint64_t seed);

}  // namespace stretto
