#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/dispenser/position.h"

namespace stretto {

/// The batches of a job whose members change: which are still to be handed out, and which of them each member got, in
/// order. A member's batches that count are a prefix of those it was handed, so that their number says which they are.
/// Sequence numbers are those of a BatchPlan. Copyable, to see what a change would leave. One thread.
///
/// There is one pool a job, beside its register. A batch that went to a member which is lost is not handed to another
/// one before the view without that member is decided.
class Pool {
 public:
  /// So many members that were computing a batch may be lost: then it is dropped, since it may be what ends them.
  static constexpr std::uint64_t kMostLosses = 3;

  /// Of `batches` in all.
  explicit Pool(std::uint64_t batches) : batches_(batches) {}
  /// Where a view says that the job stood, without what members have in hand. Errc::bad_input where position() cannot
  /// have written it for so many batches.
  static Result<Pool> from_position(std::uint64_t batches, std::span<const std::uint64_t> position);

  /// The next batch, which is then in the hand of `member`, and told it; nothing: there is none, unless some come back
  /// later, or the member is gone, which it may not know yet.
  std::optional<std::uint64_t> take(std::uint64_t member);
  /// The same, of which the member is not told yet: told() says so.
  std::optional<std::uint64_t> reserve(std::uint64_t member);
  /// The member knows of the first `count` batches that it was ever handed. A smaller count than before changes
  /// nothing, and none goes beyond what it was handed.
  void told(std::uint64_t member, std::uint64_t count);
  /// Of how many it knows for sure, and how many more are in its hand.
  std::uint64_t known_to(std::uint64_t member) const;
  std::uint64_t untold(std::uint64_t member) const;
  /// The member keeps the first `count` batches that it was ever handed; the others may be taken again.
  /// Requires: count ≥ known_to(member).
  void take_back(std::uint64_t member, std::uint64_t count);
  /// The batch that `member` was handed after the first `count` that it ever was: one that it may not know of. Nothing:
  /// none, or it is settled, or the member is gone.
  std::optional<std::uint64_t> handed_after(std::uint64_t member, std::uint64_t count) const;
  /// The member has handed over the first `count` batches that it was ever handed: where it is lost, that was not for
  /// computing one of these. A smaller count than before changes nothing, and none goes beyond what it was handed.
  void computed(std::uint64_t member, std::uint64_t count);
  /// Whether take() would give nothing.
  bool is_empty() const { return left() == 0; }
  /// How many batches are in no hand.
  std::uint64_t left() const { return returned_.size() + batches_ - next_; }
  /// Whether a view was decided without the member.
  bool has_gone(std::uint64_t member) const { return gone_.contains(member); }
  /// A member is gone: of what it was handed the first `applied` count, and the others are handed out again, before
  /// new ones; it is given none any more, also where it was never given one. `was_lost`: and has not left; it may have
  /// been computing any of those that it was told, and has not handed over. Returns the batches that are dropped. To be
  /// called with each view, also for members that were gone before: where those that held the last rounds are lost
  /// before others have them, those rounds count no longer, and nor do the batches in them. Requires: it was handed as
  /// many.
  std::vector<std::uint64_t> give_back(std::uint64_t member, std::uint64_t applied, bool was_lost);
  /// All members have begun a view: the first `applied` batches that the member was ever handed count for good.
  /// Requires: it was handed as many.
  void settle(std::uint64_t member, std::uint64_t applied);

  /// The members that were handed batches which are not settled.
  std::vector<std::uint64_t> members() const;
  /// Batches handed to the member that are not settled, in order.
  std::vector<std::uint64_t> in_hand(std::uint64_t member) const;
  /// As plain numbers: the first batch that was never handed out, those that came back, and of batches that may still
  /// be computed, or are dropped, how many members have been lost that were computing them.
  std::vector<std::uint64_t> position() const;
  /// All of it as plain numbers: position(), and what members have in hand.
  std::vector<std::uint64_t> numbers() const;
  /// The pool of `batches` that has these. Errc::bad_input where numbers() cannot have written them.
  static Result<Pool> from_numbers(std::uint64_t batches, std::span<const std::uint64_t> numbers);
  /// So many batches are dropped by such a position.
  static std::uint64_t dropped_in(std::span<const std::uint64_t> position);

 private:
  struct Hand {
    std::uint64_t settled = 0;   // batches before those in `open`, all of which count
    std::uint64_t computed = 0;  // of all that it was handed, as far as is known
    std::uint64_t told = 0;      // likewise
    std::deque<std::uint64_t> open;
  };

  static void check_count(std::uint64_t member, const Hand& hand, std::uint64_t applied);

  std::uint64_t batches_;
  std::uint64_t next_ = 0;
  std::vector<std::uint64_t> returned_;            // ascending
  std::map<std::uint64_t, Hand> hands_;            // by member
  std::set<std::uint64_t> gone_;                   // members
  std::map<std::uint64_t, std::uint64_t> losses_;  // by batch, of those that do not count
};

/// A position as Pool::position() has it, without batches that were lost.
std::vector<std::uint64_t> position_of_pool(const DispenserPosition& position);
/// The inverse, without steps and without how often batches were lost. Errc::bad_input: neither that nor a Pool can
/// have written it.
Result<DispenserPosition> position_in_pool(std::span<const std::uint64_t> of_pool);

}  // namespace stretto
