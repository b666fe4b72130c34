#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/defect.h"
#include "stretto/board/sleepers.h"
#include "stretto/kernel/bucket.h"
#include "stretto/kernel/mix.h"
#include "stretto/observe/round_header.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// A number that only grows and an index, in one word that is swapped as a whole: since the number never repeats, a
/// word that is found unchanged has not been changed in between. All zero: there is none.
class NumberedWord {
 public:
  static constexpr std::uint64_t kMaxIndex = (1u << 24) - 1;

  constexpr explicit NumberedWord(std::uint64_t bits) : bits_(bits) {}
  constexpr NumberedWord(std::uint64_t number, std::uint64_t index) : bits_(number << 24 | index) {}

  constexpr std::uint64_t bits() const { return bits_; }
  constexpr std::uint64_t number() const { return bits_ >> 24; }  ///< from 1; 0: none
  constexpr std::uint64_t index() const { return bits_ & kMaxIndex; }

 private:
  std::uint64_t bits_;
};

/// The buckets and options of a GroupBoard, the same on every rank.
struct GroupShape {
  std::vector<BucketSpec> buckets;
  Round full_every = 10;                  ///< τ
  int groups = 1;                         ///< of a round, at most
  int quorum = 0;                         ///< ranks that must have come before a group round starts; 0: the first one
  bool keep_own = false;                  ///< a result keeps the model of each rank that it is the newest of
  const ModelMath* moves = nullptr;       ///< where given: a result is a mean, and stands on each member's seat
  std::uint64_t piece_bytes = 128 << 10;  ///< bytes that one rank sums at a time; a multiple of 64
  int helpers = 1;                        ///< sleeping ranks that are woken to help sum a full round
  /// Of several boards: how many ranks the job has, and which of them are at this one, by seat; 0 and none: this is the
  /// only one.
  int job_ranks = 0;
  std::vector<int> ranks{};
};

/// The layout of a GroupBoard in the memory handed in, which is zero at the start. group_board.h says which rank writes
/// each part, and when. A rank is numbered by its seat.
class GroupMemory {
 public:
  static std::uint64_t bytes_needed(const GroupShape& shape, int ranks);
  GroupMemory(std::span<std::byte> memory, const GroupShape& shape, int ranks);

  struct Words {
    alignas(64) std::atomic<std::uint64_t> started{0};  // with a quorum: group rounds before this one have started
    std::atomic<std::uint64_t> ended{0};                // the last round + 1; 0: it is not known yet
    Sleepers sleepers;
  };
  struct Seat {
    alignas(64) std::atomic<std::uint64_t> model{0};   // a NumberedWord: the version that stands, and where it lies
    alignas(64) std::atomic<std::uint64_t> result{0};  // a NumberedWord: the newest round + 1, and its buffer
    // With GroupShape::moves: 1 where a sum, or the rank itself, is about to replace what stands. The next three are
    // read and written under it.
    alignas(64) std::atomic<std::uint32_t> claimed{0};
    /// Returns whether it has become the caller's, who gives it up.
    bool claim() {
      std::uint32_t free = 0;
      return claimed.compare_exchange_strong(free, 1, std::memory_order_seq_cst);
    }
    void give_up() { claimed.store(0, std::memory_order_seq_cst); }
    Round ticket = 0;                                    // the round of its last publication
    ContributionFacts facts;                             // of that, until a full round has counted it
    alignas(64) std::atomic<std::uint64_t> waits_at{0};  // the round + 1 that the rank has arrived at last
    std::atomic<std::uint64_t> took{0};                  // results of rounds before this one are used
    std::atomic<bool> drained{false};
    // Of its models in the group rounds since the last full one.
    alignas(64) std::atomic<std::uint64_t> ages{0};
    std::atomic<std::uint64_t> oldest_age{0};
  };
  /// A model of a rank: written by the rank while it neither stands nor is pinned, then only read.
  struct Set {
    std::atomic<int> pins{0};  // sums that read it, and results that keep it
    Round ticket = 0;          // the round it was published for
    ContributionFacts facts;
  };
  /// The sum that a rank has begun.
  struct Desk {
    alignas(64) std::atomic<std::uint64_t> pieces{0};  // a NumberedWord: its round + 1, and the first unclaimed piece
    std::atomic<std::uint64_t> done{0};                // pieces summed
    std::atomic<bool> open{false};                     // other ranks may be at work on it
    std::uint64_t result = 0;                          // where the sum goes
  };
  /// A sum over a group: written under the claim of who begins it, only read from the moment it is the newest result of
  /// a rank, and free again when it is nobody's newest and nobody reads it.
  struct Result {
    alignas(64) std::atomic<std::uint32_t> uses{0};  // ranks whose newest it is, or who sum or read it
    bool touched = false;
    Round round = 0;
    int members = 0;
    std::uint64_t header_bytes = 0;
  };
  /// A rank's model in a result.
  struct Own {
    std::uint64_t version = 0;
    int set = 0;
  };
  struct Piece {
    std::size_t bucket = 0;
    std::uint64_t offset = 0, bytes = 0;
  };

  Words& words() const { return *words_; }
  Seat& seat(int rank) const { return seats_[rank]; }
  Desk& desk(int rank) const { return desks_[rank]; }
  /// A NumberedWord: the round + 1, and the rank that has begun the sum of this group of it; of an earlier round: none
  /// has. Kept for a block of τ rounds, which no rank leaves before all have.
  std::atomic<std::uint64_t>& summer(Round round, int group) const {
    return summers_[(round % shape_.full_every) * static_cast<std::uint64_t>(shape_.groups) +
                    static_cast<std::uint64_t>(group)];
  }

  /// A rank's models: one that stands, one that is written to, and two that are summed; where results keep them, one
  /// more. With GroupShape::moves one that stands or is the base of a step, and one that is written to.
  static constexpr int num_sets(const GroupShape& shape) { return shape.moves != nullptr ? 2 : shape.keep_own ? 5 : 4; }
  int sets() const { return num_sets(shape_); }
  Set& set(int rank, int set) const { return sets_[rank * sets() + set]; }
  std::span<std::byte> model(int rank, int set, std::size_t bucket) const;

  /// Results are everybody's. A rank has one newest result, reads one and sums one at a time: so that one is always
  /// free. On several boards the sum of a group's members here is beside that of the group.
  static constexpr std::uint64_t results_per_rank(const GroupShape& shape) { return shape.job_ranks != 0 ? 4 : 3; }
  std::uint64_t results() const { return static_cast<std::uint64_t>(ranks_) * results_per_rank(shape_); }
  Result& result(std::uint64_t index) const { return results_[index]; }
  Own& own(std::uint64_t result, int rank) const {
    return owns_[result * static_cast<std::uint64_t>(ranks_) + static_cast<std::uint64_t>(rank)];
  }
  /// Room for the header of a result.
  std::span<std::byte> header(std::uint64_t result) const { return {headers_ + result * header_room_, header_room_}; }
  std::span<std::byte> sum(std::uint64_t result, std::size_t bucket) const;

  /// Where a model lies: in a set of its rank, or, with GroupShape::moves, in a result, which has the numbers from
  /// sets() on.
  std::uint64_t place_of_result(std::uint64_t result) const { return static_cast<std::uint64_t>(sets()) + result; }
  std::span<std::byte> standing(int rank, std::uint64_t place, std::size_t bucket) const {
    const auto sets = static_cast<std::uint64_t>(this->sets());
    return place < sets ? model(rank, static_cast<int>(place), bucket) : sum(place - sets, bucket);
  }
  /// Uses the result that a model lies in, if it lies in one, or gives it back.
  void use(std::uint64_t place) const {
    if (std::atomic<std::uint32_t>* uses = uses_of(place)) uses->fetch_add(1, std::memory_order_seq_cst);
  }
  void give_back(std::uint64_t place) const {
    if (std::atomic<std::uint32_t>* uses = uses_of(place)) uses->fetch_sub(1, std::memory_order_seq_cst);
  }
  /// Makes a result what stands on a seat. Returns where stood what it replaces. Requires: the seat is claimed for it.
  std::uint64_t stand(int rank, std::uint64_t result) const;

  /// Adds the facts of a pinned model to the header of a round. How old a rank's models were in the group rounds of a
  /// block is in the header of the full round at its end, as the bases of the rank's batches.
  void enter_model(RoundHeader& header, Round round, int rank, int set) const;
  /// Writes down what a result is of. Requires: claimed, and not yet anybody's newest.
  void enter_result(std::uint64_t result, Round round, int members, const RoundHeader& header) const;

  /// Before the first use of each, so that large ones come to lie on huge pages.
  void touch_model(int rank, int set) const;
  void touch_sum(std::uint64_t result) const;

  const GroupShape& shape() const { return shape_; }
  int ranks() const { return ranks_; }  ///< at this board
  /// Which of the job's ranks has a seat here.
  int rank_at(int seat) const {
    if (shape_.job_ranks == 0) return seat;
    if (defect(Defect::group_board_ranks_in_a_row)) return shape_.ranks[0] + seat;
    return shape_.ranks[static_cast<std::size_t>(seat)];
  }
  int job_ranks() const { return shape_.job_ranks != 0 ? shape_.job_ranks : ranks_; }
  bool full(Round round) const { return (round + 1) % shape_.full_every == 0; }
  /// The first round of the block of τ rounds that `round` is in: the result of the full round before it is taken
  /// first.
  Round block_of(Round round) const { return round - round % shape_.full_every; }
  std::uint64_t num_pieces() const { return num_pieces_; }
  Piece piece_at(std::uint64_t index) const;
  /// Bytes of one model or sum.
  std::uint64_t set_bytes() const { return set_bytes_; }

 private:
  struct Layout;
  std::atomic<std::uint32_t>* uses_of(std::uint64_t place) const {
    const auto sets = static_cast<std::uint64_t>(this->sets());
    return place < sets ? nullptr : &result(place - sets).uses;
  }
  std::span<std::byte> bucket_in(std::byte* sets, std::uint64_t index, std::size_t bucket) const;

  const GroupShape shape_;
  const int ranks_;
  std::vector<std::uint64_t> bucket_at_;    // in a set
  std::vector<std::uint64_t> first_piece_;  // of a bucket; one more at the end
  std::uint64_t num_pieces_ = 0, set_bytes_ = 0, set_stride_ = 0, header_room_ = 0;
  Words* words_;
  Seat* seats_;
  Desk* desks_;
  std::atomic<std::uint64_t>* summers_;
  Set* sets_;
  Result* results_;
  Own* owns_;
  std::byte *headers_, *models_, *sums_, *end_;
};

}  // namespace stretto
