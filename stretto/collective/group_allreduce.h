#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/collective/base/collective.h"
#include "stretto/collective/rounds/contribution.h"
#include "stretto/collective/rounds/groups/group_options.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"
#include "stretto/kernel/bucket.h"

namespace stretto {

/// Sums models over groups of ranks, others in each round, and does not wait for ranks that compute: the wait-avoiding
/// group allreduce of Li et al., "Breaking (Global) Barriers in Parallel Stochastic Optimization with Wait-Avoiding
/// Group Averaging" (WAGMA-SGD, arXiv 2005.00124, section III). Protocol: docs/groups.md.
///
/// A rank *publishes* a model, which stands until it publishes the next one: each round sums the newest model of every
/// member of a group, whatever its application does. Every GroupOptions::full_every-th round is *full*: it sums the
/// models of all ranks, and waits for all. Rounds are numbered from 0 on every rank, and the groups of a round are a
/// function of its number (Groups). A model in a sum is at most full_every − 1 rounds old.
///
/// With GroupOptions::moves the mean of a round stands on each member from then on, and a rank publishes what stands
/// and its own step. So the sum of all models that stand moves by own steps only, whoever is late.
///
/// An iteration is: a local step, publish(), exchange(). On a board where the ranks share memory: the member of a group
/// that comes first sums the models where they lie, and a round costs no message. On several boards
/// (GroupOptions::seats) the first rank of each sums them, and exchanges messages with those of the others. Otherwise
/// by messages. Messages a rank and round: those of an allreduce of the group (append_allreduce()), log2 P without a
/// body to start it (solo; P − 1 in all and one a rank to the counter with a quorum). One application thread; must
/// outlive every call on it.
class GroupAllreduce final : public Collective {
 public:
  /// The application's function for a result: called on its thread, inside exchange() or finish().
  using Apply = FunctionRef<void(const GroupResult&)>;

  /// Registers with the engine: in the same order, with the same buckets and options, on every rank. Allocates
  /// memory_bytes(). Throws UsageError.
  GroupAllreduce(Engine& engine, std::vector<BucketSpec> buckets, GroupOptions options = {});
  /// After finish(), or after a failure.
  ~GroupAllreduce() override;

  /// Memory for the next model. Its content is what an earlier one left. On a board it waits, rarely, for a sum
  /// that another rank makes; nothing that it waits for waits. Throws UsageError before the one it returned last has
  /// been published.
  Contribution& acquire();
  /// The model stands from now on, for the round of the next exchange(); inside an apply function for the one after.
  /// No round is joined before a rank has published its first. The memory is read until a newer one is published and
  /// every round that sums it is over. `info.batches`: steps in it since the last full round, from 0. Throws UsageError
  /// for a contribution that acquire() has not returned last.
  ///
  /// With GroupOptions::moves the first model stands at once. Of each further one, W', what it is beyond the model that
  /// was published or passed to `apply` last is put on what stands, in the next exchange().
  void publish(Contribution& contribution, const DepositInfo& info);

  /// Waits at the round of this iteration, or does not, where it is over already. Passes the newest result to `apply`
  /// if it has not been passed on before, or, with LateSum::own, that of this iteration; that of a full round always,
  /// and then `apply` has to publish() what stands from now on. With GroupOptions::moves it passes on what stands,
  /// where that is not what this rank has published, and `apply` publishes nothing. Returns how many were passed on, 0
  /// or 1, or Errc::timeout naming the round and the ranks that are missing (call again to resume), Errc::aborted,
  /// Errc::lost_peer, and once the engine is frozen (Engine::freeze()) Errc::members_changed. Throws UsageError after
  /// drain(), and before the first publish().
  Result<int> exchange(Driver& driver, TimePoint deadline, Apply apply);

  /// No more batches here: neither arrives at a group round nor starts one from now on. The model as it is now is to be
  /// published once more (not with GroupOptions::moves), and then finish() to be called. Throws UsageError while an
  /// exchange waits.
  void drain();
  /// After drain(): passes the newest results on as they come, after each of which a model is to be published again,
  /// and returns after the last round: the first full one to which no rank has batches left. All ranks have its result.
  /// Errors as exchange(); after Errc::timeout call it again. Throws UsageError before drain().
  Result<int> finish(Driver& driver, TimePoint deadline, Apply apply);

  /// Where a call that does not block has got to.
  enum class Progress : std::uint8_t {
    waiting,  ///< for other ranks: call again
    done,     ///< as exchange() or finish() would have returned
  };
  /// exchange() without blocking: call again while it waits.
  Result<Progress> try_exchange(Apply apply);
  /// finish() in the same way.
  Result<Progress> try_finish(Apply apply);

  void abort(Driver& driver, const Error& why) override;
  std::optional<Error> failure() const override;
  /// Asks every rank what it is doing.
  std::string who_is_missing(Driver& driver, Duration timeout) override;

  int num_buckets() const;              ///< arrays a model has
  const GroupOptions& options() const;  ///< as given, with the group size that it has
  /// The round of the next exchange(). Application thread.
  Round next() const;
  /// Whether that round is full.
  bool next_is_full() const;
  /// Rounds whose results have been passed on or passed over. Application thread.
  Round handed() const;
  int num_models() const;              ///< memory held: so many models
  int num_sums() const;                ///< and so many sums
  std::uint64_t memory_bytes() const;  ///< of both, in bytes

 private:
  friend class GroupProbe;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
