#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/collective/groups/groups.h"
#include "stretto/collective/protocol/ticket.h"
#include "stretto/collective/rounds/groups/group_options.h"
#include "stretto/collective/rounds/rounds_base.h"

namespace stretto {

/// A sum over the members of a group, as it lies in the memory of the rounds.
struct StandingSum {
  Round round = 0;
  const RoundHeader* header = nullptr;  ///< of the members
  int members = 0;
  std::uint64_t own_version = 0;      ///< of this rank's model in it
  const Contribution* own = nullptr;  ///< that model, with GroupOptions::keep_own; else null
  std::span<const std::span<const std::byte>> buckets;
};

/// Hears of what the rounds of a group allreduce do, in a search.
class GroupObserver {
 public:
  virtual ~GroupObserver() = default;
  /// A rank's model of this version goes into a round; 0: it has none. By messages: this rank's.
  virtual void joined(Round round, int rank, std::uint64_t version) = 0;
  /// A rank has the sum of a round. By messages: this rank.
  virtual void completed(int rank, const StandingSum& sum) = 0;
  /// With GroupOptions::moves: the step of this rank has been put on top of what stands.
  virtual void settled() {}
};

/// The rounds of a GroupAllreduce: by messages (GroupRounds), on a board (GroupBoardRounds) or on several
/// (SpanningRounds).
class StandingRounds : public RoundsBase {
 public:
  /// `how`: in words how rounds are held, which must be the same on every rank. `ask`: the channel of questions.
  StandingRounds(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options, const std::string& how,
                 std::uint16_t ask);

  // ---- the application's thread ----

  /// Memory for the next model: of none that stands, is summed, or is kept by a sum.
  virtual Contribution& acquire() = 0;
  /// The model stands from now on, for round `ticket`.
  virtual void publish(Contribution& model, Round ticket) = 0;
  virtual std::uint64_t versions() const = 0;  ///< published so far
  /// The newest sum that has not been read, if it is of a round from `from` on; valid until release().
  virtual std::optional<StandingSum> read(Round from) = 0;
  /// With LateSum::own: the sum of `round`, kept since it was complete; valid until release(). Nothing: it has been
  /// read or passed over.
  virtual std::optional<StandingSum> read_of(Round) { return std::nullopt; }
  /// The application has used the result of read(), and the results of all rounds before it.
  virtual void release(Round round) = 0;

  // With GroupOptions::moves.
  /// The model after a step, from acquire(), comes to stand for round `ticket`: what stands, and what it is beyond its
  /// base. The base is what follow() returned or what has been settled last. Returns whether it does: not while a round
  /// sums what stands.
  virtual bool settle(Contribution& model, Round ticket) = 0;
  /// Whether no round sums what stands.
  virtual bool may_settle() = 0;
  /// The standing sum: the base of the next step, valid until follow() or settle() is called again. `full`: it is of a
  /// full round, and comes with its header. Nothing: it is what the application has.
  virtual std::optional<StandingSum> follow(bool full) = 0;
  /// The first bucket of what stands; in a search, between two steps of engines.
  virtual std::span<const std::byte> stands() const = 0;

  /// Rounds that are over for this rank: it waits for none of them.
  virtual Round complete() const = 0;
  bool full(Round round) const { return (round + 1) % options_.full_every == 0; }
  virtual void set_arrived(Round round) = 0;
  virtual void set_drained() = 0;
  virtual void set_jumped(Round) {}
  /// The full round at which a rank without batches has to arrive now, once it has taken what is there.
  virtual std::optional<Round> full_to_come() const = 0;
  /// The round that this rank's application waits for, or comes to next.
  virtual Round open() const { return complete(); }
  /// Which ranks keep the open round from being over (Collective::who_is_missing()).
  std::string who_is_missing(Driver& driver, Duration timeout);

  void observe(GroupObserver& observer) { observer_ = &observer; }
  /// Whether acquire() has memory to give at once.
  virtual bool may_acquire() { return true; }
  virtual int num_models() const = 0;
  virtual int num_sums() const = 0;
  virtual std::uint64_t bytes_per_set() const = 0;  ///< of a model or sum
  const GroupOptions& options() const { return options_; }

 protected:
  /// This rank's group of a round; of a full one all ranks.
  std::vector<int> members(Round round, bool full) const;
  /// With GroupOptions::moves: model = stands + (model − base).
  void put_on_top(Contribution& model, std::span<const std::span<const std::byte>> stands,
                  std::span<const std::span<const std::byte>> base) const;

  const GroupOptions options_;
  const Groups groups_;
  GroupObserver* observer_ = nullptr;
};

}  // namespace stretto
