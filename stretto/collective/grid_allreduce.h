#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/function_ref.h"
#include "stretto/base/rank_set.h"
#include "stretto/collective/base/collective.h"
#include "stretto/collective/groups/grid_layout.h"
#include "stretto/collective/lines/grid_counts.h"
#include "stretto/collective/lines/line_options.h"
#include "stretto/collective/rounds/contribution.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"
#include "stretto/kernel/bucket.h"

namespace stretto {

class LineRounds;

struct GridAllreduceOptions {
  GridOptions grid;
  LineOptions line;  ///< of the lines of every dimension
};

/// Elements of a bucket, and whose models are in their sum.
struct GridSlice {
  int dimension = 0;
  Round round = 0;  ///< of the line of that dimension
  std::size_t bucket = 0;
  std::uint64_t offset = 0, count = 0;  ///< in elements
  const std::byte* sum = nullptr;       ///< of the models of some nodes; over `members` it is their mean
  const std::byte* brought = nullptr;   ///< this node's in it; null: it is not among them
  int members = 0;                      ///< how many those are; 1 where `sum` is the mean (Compression::int8)
};

/// Averaging in rows and columns that nobody waits for (Peng, "Scalable, Efficient Deep Learning by Means of Elastic
/// Averaging", UCB/EECS-2018-77, section 2): each rank is a node of a grid, and in each dimension its line reduces and
/// gathers models round after round, beside training. At its step boundaries a node takes what has come, moves its
/// model towards the means, and publishes it anew. One application thread.
///
/// Memory: d + 2 models, and 3 results a dimension; with ElasticUpdate::paper and R rounds in flight dR + 2, and 6R. A
/// node of a line that stops in the middle of a message, of either direction, holds one more of each, or R, until it
/// goes on: while a message of an earlier round to it has not left, later ones send it nothing. Missing::previous takes
/// a slice of each other node of a line, (p − 1)/p of a model, and Compression::int8 four times that.
class GridAllreduce final : public Collective {
 public:
  /// `buckets`: of a model. Every rank of the engine makes one, in the same order. Throws UsageError as GridLayout and
  /// LineOptions::require(), and for buckets that are not of float32 with Compression::int8.
  GridAllreduce(Engine& engine, const std::vector<BucketSpec>& buckets, const GridAllreduceOptions& options);
  /// A node whose lines come and go, each with an engine of its own by this clock, which outlives it: of none at first.
  /// Throws UsageError as LineOptions::require().
  GridAllreduce(const Clock& clock, const std::vector<BucketSpec>& buckets, const GridAllreduceOptions& options);
  /// After stop(), or a failure; where lines come and go, at any time.
  ~GridAllreduce() override;
  GridAllreduce(const GridAllreduce&) = delete;
  GridAllreduce& operator=(const GridAllreduce&) = delete;

  /// Whether a round is over since the last call of take(), also one that has brought nothing: for a caller that waits.
  bool may_take() const;
  /// At a step boundary: hands over the slices that have come since the last call, round by round. publish() follows.
  /// Returns how many rounds had some.
  int take(FunctionRef<void(const GridSlice&)> apply);
  /// Memory for a model.
  Contribution& acquire();
  /// The model in acquire()'s memory is this node's from now on, with what it has taken, and so many own steps since
  /// the last call; null: it is as it was. Before the first one it takes part without a model, and takes nothing.
  void publish(Contribution* model, std::uint64_t steps = 0);
  /// Where lines come and go: a part in a line, whose nodes are the ranks of `engine`, for enter(). It must not outlive
  /// this, and goes before the engine, which nobody steps by then. Any thread.
  std::shared_ptr<LineRounds> make_line(Engine& engine, int dimension);
  /// From its next publish() on this node is in `line` in place of the line of that dimension before, whose rounds it
  /// drops; null: in none. Any thread.
  void enter(int dimension, std::shared_ptr<LineRounds> line);
  /// Whether the line that was entered last has lost a node, and goes on no more. Any thread.
  bool is_broken(int dimension) const;
  /// How many models publish() has been given.
  std::uint64_t version() const;
  /// Whether every line has contributed the model of that number or a later one, and what came of that has been taken.
  bool has_given(std::uint64_t version) const;
  /// Ends the rounds under way as they are, on every rank, before it is destroyed. False: not until `deadline`.
  [[nodiscard]] bool stop(Driver& driver, TimePoint deadline);

  /// Why rounds go on no more: another rank is lost, has stopped the job, or differs. Where lines come and go, the last
  /// alone.
  std::optional<Error> failure() const override;
  void abort(Driver& driver, const Error& why) override;
  std::string who_is_missing(Driver&, Duration) override { return "the lines of a grid wait for nobody"; }
  const GridOptions& grid() const;
  /// Counts on from those of another one, before the first call of any other.
  void count_on_from(const GridAllreduce& before);
  int dimensions() const;
  std::uint64_t elements() const;  ///< of a model
  /// For a person: the lines that have stood still for ten seconds, each from its line master alone, and for whom. Once
  /// for each ten of them. Any thread.
  std::vector<std::string> take_lines();
  /// Of this node's line of a dimension, up to now. Any thread.
  GridCounts counts(int dimension) const;
  /// Where lines come and go: what this node has sent in all of them. Any thread.
  Traffic traffic() const;
  int num_models() const;
  int num_results() const;  ///< of the dimension that has most
  std::uint64_t memory_bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
