#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "stretto/base/rank_set.h"
#include "stretto/board/partial_memory.h"
#include "stretto/kernel/combine.h"
#include "stretto/observe/round_header.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// The first so many sources of a round's list, in one word that is swapped as a whole. One rank at a time works on the
/// plan or piece (busy).
template <class Word>
class SourcesWord {
 public:
  constexpr explicit SourcesWord(std::uint64_t bits) : bits_(bits) {}
  constexpr SourcesWord(Round round, std::uint64_t sources, bool last)
      : bits_(round << 24 | sources << 8 | (last ? kLast : 0)) {}

  constexpr std::uint64_t bits() const { return bits_; }
  constexpr Round round() const { return bits_ >> 24; }
  constexpr std::uint64_t sources() const { return bits_ >> 8 & 0xffff; }
  constexpr bool busy() const { return (bits_ & kBusy) != 0; }
  constexpr Word as_busy() const { return Word(bits_ | kBusy); }

 protected:
  static constexpr std::uint64_t kBusy = 1, kLast = 2, kAgain = 4;
  constexpr bool last() const { return (bits_ & kLast) != 0; }

 private:
  std::uint64_t bits_;
};

/// The sources of a round that are known so far. Busy: a rank adds to the list. Final: the list is complete.
class PlanWord : public SourcesWord<PlanWord> {
 public:
  using SourcesWord::SourcesWord;
  constexpr bool final() const { return last(); }
};

/// The progress of a piece of a round's sum: the first so many sources are in it. Busy: a rank adds to it; another rank
/// that finds it busy sets `again`, so that the first one reads the plan once more before it lets go.
class PieceWord : public SourcesWord<PieceWord> {
 public:
  using SourcesWord::SourcesWord;
  constexpr bool finished() const { return last(); }
  constexpr PieceWord with_again() const { return PieceWord(bits() | kAgain); }
};

/// The ranks that have come to the open round, as the seats say; numbered by their seats.
struct Attendance {
  RankSet arrived, drained;
  std::int64_t first_arrival = 0;  ///< nanoseconds; 0: no rank has arrived
};

/// Decides when the open round starts, and hears of its progress. Called from PartialBoard::step().
class PartialRule {
 public:
  virtual ~PartialRule() = default;
  /// Whether `round` may start, given the rounds before it. The same answer on every rank that sees the same
  /// attendance, but for time.
  virtual bool may_start(Round round, const Attendance& attendance) = 0;
  virtual std::int64_t now() const = 0;
  /// This rank has started the round.
  virtual void started(Round, const Attendance&) {}
  /// This rank makes the plan of the round: `facts` is the contribution of `seat` (null: nothing). Called once for each
  /// seat.
  virtual void taken(Round, int /*seat*/, const ContributionFacts* /*facts*/) {}
  /// The header of the round. `words` are the rule's own: they are kept with the header, for the decision about the
  /// next round.
  virtual void planned(Round round, const RoundHeader& header, std::span<std::uint64_t, 2> words) = 0;
};

/// The step that a rank takes next at a PartialBoard. Each is the method of that name, of the board or of one of its
/// parts, which makes one access to shared memory and returns the step that follows.
enum class BoardStep {
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

/// The open round as one rank has last seen it: the state that the parts of this rank's PartialBoard share.
struct OpenRound {
  PartialMemory& memory;
  PartialRule& rule;
  const int rank;   // this one's seat
  const int ranks;  // at the board
  const std::function<void(int seat)> ring;
  const bool interleaved;
  const bool ring_each;  // no rank sleeps on the board's word

  Round round = 0;
  PartialMemory::Stage stage = PartialMemory::kOpen;
  int seat = 0;               // the next one to look at, seal or list
  std::uint64_t changes = 0;  // value of Words::changes before the seats were read: unmoved, the attendance is current
  std::uint64_t plan = 0;     // a PlanWord
  bool waiting = false;       // this rank's application waits
  bool did = false;           // something has been done since step() was called

  /// Counts pieces of a bucket that are summed. With several boards, the rank that counts the last piece of a bucket
  /// rings the leader.
  void count_done(std::size_t bucket, std::uint64_t pieces);
  /// Wakes ranks that wait, to sum pieces. Returns how many.
  int wake_helpers();
};

/// The part of a PartialBoard that starts rounds: reads which ranks have come, asks the rule, and keeps the bound on
/// the lag.
class PartialStart {
 public:
  explicit PartialStart(OpenRound& at) : at_(at), attendance_{RankSet(at.ranks), RankSet(at.ranks)} {}

  /// The round is open.
  BoardStep look();
  BoardStep look_at_seat();
  BoardStep look_at_lag();
  BoardStep start();

 private:
  BoardStep ask();
  BoardStep sum_early();

  OpenRound& at_;
  Attendance attendance_;
  std::uint64_t attended_ = ~std::uint64_t{0};  // the changes that attendance_ knows of
  Round attended_round_ = 0;
  Round least_handed_ = 0;
  bool early_ = false;  // the round does not start yet: is there something to sum ahead?
  bool held_ = false;   // Words::held is stored; the handed counts are being read again (pairs with hand_over())
};

/// The part of a PartialBoard that makes the plan of a round: the list of sets to be summed, and the header. One rank
/// at a time makes it.
class PartialPlan {
 public:
  explicit PartialPlan(OpenRound& at) : at_(at), in_list_(static_cast<std::size_t>(at.ranks)) {}

  BoardStep plan();
  BoardStep list_seat();
  BoardStep publish();

 private:
  bool whole(int rank, int set) const;
  void list(int rank, int set);
  void write_header();

  OpenRound& at_;
  std::uint64_t planned_at_ = 0;  // the changes after which summing ahead was last thought of
  std::uint64_t listed_ = 0;      // sources when this rank began to plan, and now
  std::uint64_t list_end_ = 0;
  RoundHeader header_;                 // of write_header()
  std::vector<std::uint8_t> in_list_;  // per seat: a bit for each of its sets that is
};

/// The part of a PartialBoard that sums: claims a piece, adds the sources that the plan lists, and releases the piece.
class PartialSum {
 public:
  explicit PartialSum(OpenRound& at);

  /// Every piece is to be looked at again.
  void begin() {
    looked_ = 0;
    from_first_ = false;
  }
  BoardStep find_piece();
  BoardStep sum();
  BoardStep release();

 private:
  bool ready(std::size_t bucket);
  const Combination& combination(std::size_t sources);

  OpenRound& at_;
  std::uint64_t next_piece_;  // where this rank looks for one
  std::uint64_t looked_ = 0;  // pieces since it has found one
  bool from_first_ = false;   // it has begun at the first piece, as the one it was at cannot be summed yet
  std::uint64_t piece_ = 0;   // the one it has claimed
  std::uint64_t held_bits_ = 0;
  std::uint64_t from_ = 0;  // sources that are in the piece
  bool finishes_ = false;
  std::size_t ready_buckets_ = 0;  // of ready_round_
  Round ready_round_ = 0;
  std::vector<const std::byte*> sources_;          // of the piece
  std::vector<std::optional<Combination>> trees_;  // by number of sources
  std::optional<Combination> fixed_;               // of fixed_round_, by its sources of fixed_ranks_
  std::vector<int> fixed_ranks_;
  std::vector<int> ranks_;  // of the sources of a round
  Round fixed_round_ = 0;
};

}  // namespace stretto
