#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "stretto/base/rank_set.h"
#include "stretto/board/partial_memory.h"
#include "stretto/board/seat_word.h"
#include "stretto/kernel/combine.h"

namespace stretto {

/// Who has come to the open round, as the seats say; ranks by their seats.
struct Attendance {
  RankSet arrived, drained;
  std::int64_t first_arrival = 0;  ///< nanoseconds; 0: nobody has arrived
};

/// Decides when the open round starts, and hears what becomes of it. Called from PartialBoard::step().
class PartialRule {
 public:
  virtual ~PartialRule() = default;
  /// Whether `round` may start, for all that is known of the rounds before. The same answer on every rank that sees the
  /// same attendance, but for time.
  virtual bool may_start(Round round, const Attendance& attendance) = 0;
  virtual std::int64_t now() const = 0;
  /// This rank has started the round.
  virtual void started(Round, const Attendance&) {}
  /// This rank makes the plan of the round: a seat brings what `facts` say (null: nothing). Once for each.
  virtual void taken(Round, int /*seat*/, const ContributionFacts* /*facts*/) {}
  /// The header of the round, and two words that stay with it for whoever decides about the next one.
  virtual void planned(Round round, const RoundHeader& header, std::span<std::uint64_t, 2> words) = 0;
};

/// Where the ranks of one host hold a partial allreduce (protocol.md, The board): their deposits, arrivals, and the
/// results of the last W rounds. This is the engine's side, the same on every rank: whoever has something to wait for
/// steps it, and does for all what is to be done next.
///
/// A round is open; somebody sees that it may start and says so (stage sealing); every seat's word is sealed, the empty
/// ones, too, by whoever comes by; one rank writes down what is to be summed and the header (the plan); pieces are
/// summed, each by whoever claims it; the round is complete, and the next one open. What has been deposited before a
/// round starts may be summed before (order of arrival): a deposit that is first on its seat stays until it is sealed,
/// and so does the second of a rank that waits. One round is in flight at a time: nobody can arrive at the next before
/// this one is complete.
///
/// A job may have several boards (PartialShape::job_ranks), whose leaders are the ranks with seat 0. Then the rule of a
/// leader alone starts a round; what the board sums goes to a place of its own, and the leader is rung whenever a
/// bucket is ready (PartialMemory::bucket_summed()). The round stays in the stage summing until the leader has what all
/// boards bring together where the result goes, and calls end().
///
/// A step machine over memory handed in: with `interleaved` each step is one access to what is shared, so that a search
/// can put the ranks' steps in any order. One object a rank, one thread at a time; the rank's PartialSeat is another's.
class PartialBoard {
 public:
  enum Stage : std::uint64_t { kOpen, kSealing, kSumming };

  /// `ring`: the rank with a seat.
  PartialBoard(PartialMemory& memory, int seat, PartialRule& rule, std::function<void(int seat)> ring,
               bool interleaved = false);

  /// Does what can be done now. `waiting`: this rank has nothing better to do, and sums ahead. Returns whether anything
  /// was done (interleaved: whether there may be more).
  bool step(bool waiting);

  Round complete() const { return memory_.words().stage.load(std::memory_order_acquire) >> 2; }
  bool in_flight() const { return (memory_.words().stage.load(std::memory_order_acquire) & 3) != kOpen; }
  /// Requires: handed ≤ round < complete(), of this rank.
  RoundHeader header(Round round) const;
  /// The same where this rank's application may have handed the round over meanwhile: nothing if it is overwritten, and
  /// then what was read of the round's record before means nothing.
  std::optional<RoundHeader> kept_header(Round round) const;
  /// Several boards, the leader: what all boards bring to `round` lies where its result goes, and this is its header.
  void end(Round round, const RoundHeader& header);
  /// Whether the bound on the lag holds the open round back.
  bool held() const { return memory_.words().held.load(std::memory_order_relaxed) == complete() + 1; }
  /// Wakes ranks that wait, to sum what is ready. Returns how many.
  int wake_helpers();
  /// Whether every rank has come to the open round and handed over the first `buckets` buckets of what it brings. Of
  /// ranks that do so at once one sees it. The application's thread.
  bool all_have(int buckets) const;
  /// Whether every rank has come to the open round or drained. Of ranks that do so at once one sees it.
  bool all_have_come() const { return all_have(0); }
  /// Wakes a rank that waits, if any.
  int wake_one();
  /// What a sleeping rank sleeps on beside its doorbell (Sleepers).
  std::atomic<std::uint32_t>* signal();
  /// From now on whoever completes a round rings this rank. Returns whether that is new: then step once more before
  /// sleeping.
  bool go_in();
  void leave();

 private:
  /// What this rank is about; each is the method of that name, which makes one access and says what follows.
  enum class Doing {
    look,
    look_at_seat,
    look_at_lag,
    start,
    seal,
    end_sealing,
    end_round,
    plan,
    list_seat,
    publish,
    find_piece,
    sum,
    release,
    nothing
  };

  Doing take_step();
  Doing look();
  Doing look_at_seat();
  Doing look_at_lag();
  Doing start();
  Doing seal();
  Doing end_sealing();
  Doing end_round();
  Doing plan();
  Doing list_seat();
  Doing publish();
  Doing find_piece();
  Doing sum();
  Doing release();

  Doing sum_early();
  bool whole(int rank, int set) const;
  void list(int rank, int set);
  void write_header() const;
  void open_next();
  void count_done(std::size_t bucket, std::uint64_t pieces);
  bool ready(std::size_t bucket);
  const Combination& combination(std::size_t sources);

  PartialMemory& memory_;
  const int rank_;  // seats
  const int ranks_;
  PartialRule& rule_;
  const std::function<void(int)> ring_;
  const bool interleaved_;

  Doing doing_ = Doing::look;
  bool did_ = false;
  bool waiting_ = false;

  Round round_ = 0;  // what look() has seen
  Stage stage_ = kOpen;
  int seat_ = 0;  // the next one to look at, seal or list

  Attendance attendance_;
  std::uint64_t changes_ = 0;                   // read before the seats were looked at
  std::uint64_t attended_ = ~std::uint64_t{0};  // the changes that attendance_ knows of
  Round attended_round_ = 0;
  Round least_handed_ = 0;
  bool early_ = false;  // the round does not start yet: is there something to sum ahead?
  bool held_ = false;   // it has been said that the round is held; this is the second look

  std::uint64_t planned_at_ = 0;  // the changes after which summing ahead was last thought of
  std::uint64_t listed_ = 0;      // sources when this rank began to plan, and now
  std::uint64_t list_end_ = 0;
  std::vector<std::uint8_t> in_list_;  // per seat: a bit for each of its sets that is

  std::uint64_t next_piece_;  // where this rank looks for one
  std::uint64_t looked_ = 0;  // pieces since it has found one
  std::uint64_t piece_ = 0;   // the one it has claimed
  std::uint64_t plan_bits_ = 0, held_bits_ = 0;
  std::uint64_t from_ = 0;  // sources that are in the piece
  bool finishes_ = false;
  std::size_t ready_buckets_ = 0;  // of ready_round_
  Round ready_round_ = 0;
  std::vector<const std::byte*> sources_;          // of the piece
  std::vector<std::optional<Combination>> trees_;  // by number of sources
  std::optional<Combination> fixed_;               // of fixed_round_
  Round fixed_round_ = 0;
};

}  // namespace stretto
