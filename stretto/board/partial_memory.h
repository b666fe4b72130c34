#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/defect.h"
#include "stretto/board/sleepers.h"
#include "stretto/kernel/bucket.h"
#include "stretto/observe/round_header.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// The buckets and options of a PartialBoard, the same on every rank.
struct PartialShape {
  std::vector<BucketSpec> buckets;
  ReduceOp op = ReduceOp::sum;
  SumOrder order = SumOrder::fixed;
  int max_lag = 4;                        ///< W: results kept, unless `results` says more
  std::uint64_t piece_bytes = 128 << 10;  ///< bytes that one rank sums at a time; a multiple of 64
  int helpers = 1;                        ///< sleeping ranks that are woken to help sum a round
  /// Where a job has several boards: how many ranks there are in all, and which of them are here, by seat. 0 and none:
  /// this board has all of them.
  int job_ranks = 0;
  std::vector<int> ranks{};
  Round rounds_before = 0;  ///< in headers round 0 has this number
  int results = 0;          ///< so many are kept, W at least; 0: W
  int results_kept() const { return results == 0 ? max_lag : results; }
};

/// The layout of a PartialBoard in the memory handed in, which is zero at the start. partial_board.h says which rank
/// writes each part, and when. A rank is numbered by its seat here, in headers alone as the job does.
class PartialMemory {
 public:
  /// A rank's contributions: one being filled, one to add up in, two pending, two in the round being summed.
  static constexpr int kSets = 6;

  static std::uint64_t bytes_needed(const PartialShape& shape, int ranks);
  PartialMemory(std::span<std::byte> memory, const PartialShape& shape, int ranks);

  /// Of the open round.
  enum Stage : std::uint64_t { kOpen, kSealing, kSumming };

  struct Words {
    alignas(64) std::atomic<std::uint64_t> stage{0};    // round · 4 + Stage
    alignas(64) std::atomic<std::uint64_t> changes{0};  // of seats and handed counts: decides if a round may start
    std::atomic<std::uint64_t> held{0};                 // round + 1 that the bound on the lag holds back, or 0
    alignas(64) std::atomic<std::uint64_t> plan{0};     // a PlanWord
    alignas(64) std::atomic<std::uint64_t> done{0};     // pieces, of all rounds, that are summed
    std::atomic<std::uint64_t> left{0};  // several boards: rounds whose sums have left this one, contiguous
    Sleepers sleepers;
  };
  struct Set {
    ContributionFacts facts;
    std::atomic<int> ready{0};  // buckets handed over, in order
  };
  /// The record of a round: written by the rank that makes its plan, kept until the record of a round later by
  /// PartialShape::results_kept() + 1 overwrites it. An engine that was put to sleep while its application went on may
  /// read it while it is overwritten (docs/boards.md, B11).
  struct Record {
    std::atomic<std::int64_t> sealed_at{0};  // nanoseconds
    std::atomic<std::uint64_t> rule[2];      // the rule's own
    std::atomic<bool> last{false};           // all ranks had drained
    std::atomic<std::uint64_t> header_bytes{0};
  };
  struct Piece {
    std::size_t bucket = 0;
    std::uint64_t offset = 0, bytes = 0;
  };

  Words& words() const { return *words_; }
  std::atomic<std::uint64_t>& seat(int rank) const { return seats_[rank]; }
  std::atomic<std::uint64_t>& handed(int rank) const { return handed_[rank]; }
  /// When the rank came to the round its seat says it has arrived at, in nanoseconds.
  std::atomic<std::int64_t>& arrived_at(int rank) const { return arrived_at_[rank]; }
  /// A SeatWord: the sealed word of a seat in `round`, copied here because the seat word is reused by the next deposit.
  std::atomic<std::uint64_t>& sealed(Round round, int rank) const {
    return sealed_[(round % slots_) * static_cast<std::uint64_t>(ranks_) + static_cast<std::uint64_t>(rank)];
  }
  /// A source of the round: rank · kSets + set.
  std::atomic<std::uint32_t>& source(std::uint64_t i) const { return sources_[i]; }
  /// A PieceWord.
  std::atomic<std::uint64_t>& piece(std::uint64_t i) const { return pieces_[i]; }

  Set& set(int rank, int set) const { return sets_[rank * kSets + set]; }
  std::span<std::byte> data(int rank, int set, std::size_t bucket) const;
  Record& record(Round round) const { return *reinterpret_cast<Record*>(record_at(round)); }
  std::span<std::atomic<std::uint64_t>> header(Round round) const;
  /// Per rank, nanoseconds: when it had come; 0 where it had not.
  std::span<std::atomic<std::int64_t>> arrivals(Round round) const;
  std::span<std::byte> result(Round round, std::size_t bucket) const;
  /// The sum over this board's ranks. With one board it is the result. With several it is sent to the other boards, and
  /// the sum of the round before may still be leaving: so there are two, used in turns.
  std::span<std::byte> sum(Round round, std::size_t bucket) const;
  /// Several boards: pieces of a bucket, of all rounds, that are summed. Counted after `done`.
  std::atomic<std::uint64_t>& bucket_done(std::size_t bucket) const { return bucket_done_[bucket]; }
  bool bucket_summed(Round round, std::size_t bucket) const {
    return bucket_done(bucket).load(std::memory_order_acquire) >= (round + 1) * pieces_of(bucket);
  }
  std::uint64_t pieces_of(std::size_t bucket) const { return first_piece_[bucket + 1] - first_piece_[bucket]; }
  /// Several boards: whether the place of the round's sum is free.
  bool sum_is_free(Round round) const { return round < words_->left.load(std::memory_order_acquire) + kSums; }
  static constexpr std::uint64_t kSums = 2;

  /// Before the first use of each, so that large ones come to lie on huge pages.
  void touch_set(int seat, int set) const;
  void touch_sums(Round round) const;

  bool several_boards() const { return shape_.job_ranks != 0; }
  /// Which of the job's ranks has a seat here.
  int rank_at(int seat) const {
    if (!several_boards()) return seat;
    if (defect(Defect::board_ranks_in_a_row)) return shape_.ranks[0] + seat;
    return shape_.ranks[static_cast<std::size_t>(seat)];
  }
  int job_ranks() const { return several_boards() ? shape_.job_ranks : ranks_; }
  const PartialShape& shape() const { return shape_; }
  int ranks() const { return ranks_; }
  std::uint64_t num_pieces() const { return num_pieces_; }
  /// Rounds fully summed. The stage would do, but another process may move it, which the thread sanitizer cannot see.
  /// This counter is touched by the threads of this process, too, so the sanitizer sees their order.
  Round done() const { return words_->done.load(std::memory_order_acquire) / num_pieces_; }
  Piece piece_at(std::uint64_t index) const;
  /// Bytes of one contribution or result.
  std::uint64_t set_bytes() const { return set_bytes_; }

 private:
  struct Layout;
  std::byte* record_at(Round round) const { return records_ + (round % (slots_ + 1)) * record_stride_; }

  const PartialShape shape_;
  const int ranks_;
  const std::uint64_t slots_;
  std::vector<std::uint64_t> bucket_at_;    // in a set
  std::vector<std::uint64_t> first_piece_;  // of a bucket; one more at the end
  std::uint64_t num_pieces_ = 0, set_bytes_ = 0, set_stride_ = 0, header_room_ = 0, record_stride_ = 0;
  Words* words_;
  std::atomic<std::uint64_t>*seats_, *handed_, *sealed_, *pieces_, *bucket_done_;
  std::atomic<std::int64_t>* arrived_at_;
  std::atomic<std::uint32_t>* sources_;
  Set* sets_;
  std::byte *records_, *results_, *sums_, *data_, *buffers_end_;
};

/// Writes the record of a round on a board: its header, and two words of the rule for the decision about the next
/// round. Requires: the stage says that the round is being summed; one rank at a time.
void write_record(const PartialMemory& memory, Round round, const RoundHeader& header,
                  std::span<const std::uint64_t, 2> rule);

/// Reads the header of a round into `header`, whose memory is used again; false if a later round may have overwritten
/// it meanwhile: then discard everything read from this record before the call (as with a seqlock).
[[nodiscard]] bool read_record(const PartialMemory& memory, Round round, RoundHeader& header);

/// The header of the round that is being summed. Requires: its record is written, and no rank is writing it.
RoundHeader read_own_record(const PartialMemory& memory, Round round);

}  // namespace stretto
