#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/collective/rounds/contribution.h"
#include "stretto/collective/rounds/groups/group_options.h"
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
  TimePoint published;        ///< in a grid: when
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
/// With LateSum::own each sum is kept until its iteration, τ + 1 at most: of τ − 1 group rounds, of the full round, and
/// one that is still being sent. No rank passes a full round before it has made all iterations up to it. With keep_own
/// each may keep a model.
///
/// With GroupOptions::moves a round that is complete makes its mean the model that stands, and no round is joined while
/// the application puts its step on that. Five models: one stands, one is the base of the application's step, one is
/// sent, one is written to, one becomes the mean; and two sums, of which one may still be sent from.
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

  // With GroupOptions::moves.
  /// A step that may be put on what stands: no round is joined until end_step(). Nothing where a round sums what
  /// stands.
  struct Step {
    const StandingModel* stands = nullptr;
    const StandingModel* base = nullptr;
  };
  std::optional<Step> begin_step();
  /// The model with this index stands, which the application has as it is if what stood was its base.
  void end_step(int index, Round ticket);
  bool may_step() const;
  /// Makes the standing model the base from now on; null where the application has it.
  const StandingModel* follow();
  /// The sum of the full round that was complete last; its steps are counted from now on.
  const GroupSum* take_full();
  const StandingModel* stands() const;  ///< in a search, where no other thread publishes

  // ---- the thread that drives the engine ----

  /// The memory that a joined round works with.
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

  int num_models() const { return math_ != nullptr ? 5 : keep_own_ ? num_sums() + 1 : 3; }
  int num_sums() const { return num_sums_; }
  std::uint64_t bytes_per_set() const { return bytes_per_set_; }

 private:
  void stand(int index, Round ticket) REQUIRES(mutex_);
  bool has_room() const REQUIRES(mutex_);
  GroupSum* free_sum() const REQUIRES(mutex_);
  void stand_mean(const GroupSum& sum);
  void drop_own(GroupSum& sum) REQUIRES(mutex_);

  const std::vector<BucketSpec> specs_;
  const ModelMath* const math_;  // GroupOptions::moves
  const Round full_every_;
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
  // With GroupOptions::moves.
  StandingModel* base_ GUARDED_BY(mutex_) = nullptr;  // of the application's next step
  bool has_base_ GUARDED_BY(mutex_) = true;           // the application's numbers are those of the base
  bool summed_ GUARDED_BY(mutex_) = false;            // a round sums what stands
  bool stepping_ GUARDED_BY(mutex_) = false;          // between begin_step() and end_step()
};

}  // namespace stretto
