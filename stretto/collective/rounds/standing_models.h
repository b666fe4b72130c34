#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/collective/group_allreduce.h"
#include "stretto/collective/rounds/contribution.h"
#include "stretto/engine/blocks.h"
#include "stretto/kernel/bucket.h"
#include "stretto/observe/round_header.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// A model that its rank has published. Not written to while it stands or is pinned.
struct StandingModel {
  StandingModel(std::span<const BucketSpec> buckets, int index) : contribution(buckets, index) {}

  Contribution contribution;
  std::uint64_t version = 0;  ///< its number among the rank's publications, from 1
  Round ticket = 0;           ///< the round it was published for
  int pins = 0;               ///< rounds that send it, and results that name it
  bool filling = false;       ///< the application writes to it
};

/// The sum of a round over the members of a group.
struct GroupSum {
  explicit GroupSum(std::span<const BucketSpec> buckets);

  Round round = 0;
  RoundHeader header;  ///< of the members
  int members = 0;
  StandingModel* own = nullptr;   ///< this rank's model in it
  std::uint64_t own_version = 0;  ///< its version
  bool pins_own = false;          ///< it holds a pin on it
  std::vector<Block> memory;      ///< of each bucket
  std::vector<std::span<const std::byte>> buckets;
  int rounds_using = 0;  ///< rounds that sum into it, or still send from it
  bool kept = false;     ///< with LateSum::own: complete, and the iteration it is for may still come
};

/// The memory of one rank of a group allreduce: the models it has published, of which the newest stands until it
/// publishes a newer one, and the sums of rounds, of which the newest waits to be read. Three models and three sums are
/// enough: one stands, one is sent, one is written to; one waits, one is read, one is summed. A fourth model where sums
/// keep the rank's own model until they are read (GroupOptions::keep_own).
///
/// With LateSum::own all sums are kept until their iteration: those of the τ − 1 group rounds between two full ones, as
/// no rank passes a full round before it has made the iterations before it, that of the full one, and one that is still
/// being sent. With keep_own each may keep a model.
///
/// The application thread and the thread that drives the engine share it; each holds the lock for a few assignments.
class StandingModels {
 public:
  StandingModels(std::span<const BucketSpec> buckets, const GroupOptions& options);

  // ---- application thread ----

  /// A model that is neither the newest nor pinned, to write to. Its content is left over from an earlier step.
  StandingModel& acquire();
  /// Makes the model with this index the newest, for round `ticket`.
  void publish(int index, Round ticket);
  /// Versions published so far.
  std::uint64_t versions() const;
  /// The newest sum that has not been read, of a round from `from` on; valid until release(). Null: there is none.
  const GroupSum* read(Round from);
  /// With LateSum::own: the sum of round `round`, kept since it was complete; valid until release(). Null: it has been
  /// read or passed over.
  const GroupSum* read_of(Round round);
  /// Gives back what has been read. Sums of rounds before `next` are kept no more.
  void release(Round next);

  // ---- the thread that drives the engine ----

  /// What a round that is joined works with.
  struct Joined {
    StandingModel* model = nullptr;  ///< pinned
    GroupSum* sum = nullptr;         ///< in use
  };
  /// Nothing where the round cannot be joined now: there is no model, or no memory for its sum, or no model would be
  /// left to write to. That is decided under the same lock: the application may publish at any time.
  std::optional<Joined> join(Round round, int members);
  /// The sum is complete: it is the newest.
  void complete(GroupSum& sum, const RoundHeader& header);
  /// All that the round sends has left.
  void retire(const Joined& joined);

  int num_models() const { return keep_own_ ? num_sums() + 1 : 3; }
  int num_sums() const { return num_sums_; }
  std::uint64_t bytes_per_set() const { return bytes_per_set_; }

 private:
  bool has_room() const REQUIRES(mutex_);
  GroupSum* free_sum() const REQUIRES(mutex_);
  void drop_own(GroupSum& sum) REQUIRES(mutex_);

  const bool keep_own_;
  const bool keep_sums_;  // LateSum::own
  const int num_sums_;
  std::uint64_t bytes_per_set_ = 0;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<StandingModel>> models_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<GroupSum>> sums_ GUARDED_BY(mutex_);
  StandingModel* newest_ GUARDED_BY(mutex_) = nullptr;
  GroupSum* newest_sum_ GUARDED_BY(mutex_) = nullptr;
  GroupSum* reading_ GUARDED_BY(mutex_) = nullptr;
  std::uint64_t versions_ GUARDED_BY(mutex_) = 0;
};

}  // namespace stretto
