#include "stretto/board/partial_sum.h"

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/board/plan_words.h"
#include "stretto/kernel/combination.h"

namespace stretto {

PartialSum::PartialSum(OpenRound& at)
    : at_(at),
      next_piece_(at.memory.num_pieces() * static_cast<std::uint64_t>(at.rank) / static_cast<std::uint64_t>(at.ranks)),
      trees_(2 * static_cast<std::size_t>(at.ranks) + 2) {}

BoardStep PartialSum::find_piece() {
  const PlanWord plan(at_.plan);
  if (plan.round() != at_.round || (plan.sources() == 0 && !plan.final())) return BoardStep::nothing;
  if (plan.sources() == 0) return BoardStep::look;
  if (looked_++ == at_.memory.num_pieces()) return BoardStep::nothing;
  const std::uint64_t index = next_piece_;
  auto& piece = at_.memory.piece(index);
  std::uint64_t bits = piece.load(std::memory_order_acquire);
  const PieceWord seen(bits);
  if (seen.round() > at_.round) return BoardStep::look;
  const PieceWord word = seen.round() == at_.round ? seen : PieceWord(at_.round, 0, false);
  const bool finishes = plan.final() && ready(at_.memory.piece_at(index).bucket);
  if (word.busy()) {
    // The rank that has claimed the piece reads the plan once more before it releases it.
    if (!piece.compare_exchange_strong(bits, word.with_again().bits(), std::memory_order_acq_rel)) {
      --looked_;
      return BoardStep::find_piece;
    }
  } else if (!word.finished() && (finishes || (!plan.final() && word.sources() < plan.sources()))) {
    held_bits_ = word.as_busy().bits();
    if (!piece.compare_exchange_strong(bits, held_bits_, std::memory_order_acq_rel)) {
      --looked_;
      return BoardStep::find_piece;
    }
    piece_ = index;
    from_ = word.sources();
    finishes_ = finishes;
    return BoardStep::sum;
  } else if (!word.finished() && plan.final()) {
    return BoardStep::nothing;  // buckets are handed over in order
  }
  next_piece_ = index + 1 == at_.memory.num_pieces() ? 0 : index + 1;
  return BoardStep::find_piece;
}

BoardStep PartialSum::sum() {
  const std::uint64_t to = PlanWord(at_.plan).sources();
  if (from_ < to) {
    const PartialMemory::Piece piece = at_.memory.piece_at(piece_);
    const BucketSpec& bucket = at_.memory.shape().buckets[piece.bucket];
    std::byte* sum = at_.memory.sum(at_.round, piece.bucket).data() + piece.offset;
    sources_.clear();
    if (from_ > 0) sources_.push_back(sum);
    for (std::uint64_t i = from_; i < to; ++i) {
      const auto source = static_cast<int>(at_.memory.source(i).load(std::memory_order_relaxed));
      const int rank = source / PartialMemory::kSets, set = source % PartialMemory::kSets;
      const auto ready = static_cast<std::size_t>(at_.memory.set(rank, set).ready.load(std::memory_order_acquire));
      STRETTO_CHECK(piece.bucket < ready, "bucket ", piece.bucket, " of rank ", rank, " is summed before it is there");
      sources_.push_back(at_.memory.data(rank, set, piece.bucket).data() + piece.offset);
    }
    combine(combination(sources_.size()), bucket.type, at_.memory.shape().op, sum, sources_,
            piece.bytes / size_of(bucket.type));
    from_ = to;
  }
  at_.did = true;
  return BoardStep::release;
}

BoardStep PartialSum::release() {
  auto& words = at_.memory.words();
  auto& piece = at_.memory.piece(piece_);
  std::uint64_t bits = held_bits_;
  if (piece.compare_exchange_strong(bits, PieceWord(at_.round, from_, finishes_).bits(), std::memory_order_acq_rel)) {
    if (finishes_) at_.count_done(at_.memory.piece_at(piece_).bucket, 1);
    next_piece_ = piece_ + 1 == at_.memory.num_pieces() ? 0 : piece_ + 1;
    looked_ = 0;
    // When the last piece is summed, ending the round comes first.
    return at_.stage == PartialMemory::kSumming &&
                   words.done.load(std::memory_order_relaxed) != (at_.round + 1) * at_.memory.num_pieces()
               ? BoardStep::find_piece
               : BoardStep::look;
  }
  // Another rank has set `again`, because the plan may have grown. Clear the bit first, then read the plan, or its wish
  // is lost (docs/boards.md, B8).
  piece.store(held_bits_, std::memory_order_seq_cst);
  at_.plan = words.plan.load(std::memory_order_seq_cst);
  const PlanWord plan(at_.plan);
  finishes_ = plan.final() && ready(at_.memory.piece_at(piece_).bucket);
  if (plan.final() && !finishes_) at_.plan = PlanWord(at_.round, from_, false).bits();
  return BoardStep::sum;
}

/// Whether all whose deposits the round sums have handed over a bucket. Requires: the plan is final.
bool PartialSum::ready(std::size_t bucket) {
  if (ready_round_ != at_.round) ready_buckets_ = 0;
  ready_round_ = at_.round;
  if (bucket < ready_buckets_) return true;
  int least = static_cast<int>(at_.memory.shape().buckets.size());
  const std::uint64_t sources = PlanWord(at_.plan).sources();
  for (std::uint64_t i = 0; i < sources; ++i) {
    const auto source = static_cast<int>(at_.memory.source(i).load(std::memory_order_relaxed));
    const auto& set = at_.memory.set(source / PartialMemory::kSets, source % PartialMemory::kSets);
    least = std::min(least, set.ready.load(std::memory_order_acquire));
  }
  ready_buckets_ = static_cast<std::size_t>(least);
  return bucket < ready_buckets_;
}

/// SumOrder::arrival takes any shape, and a tree is fast. SumOrder::fixed takes the tree of all ranks, from which the
/// ranks that have brought nothing are pruned. Requires: the sources of this round's plan.
const Combination& PartialSum::combination(std::size_t sources) {
  if (at_.memory.shape().order == SumOrder::arrival || defect(Defect::tree_of_contributors)) {
    auto& tree = trees_[sources];
    if (!tree) tree = Combination::tree(static_cast<int>(sources));
    return *tree;
  }
  if (!fixed_ || fixed_round_ != at_.round) {
    ranks_.clear();
    for (std::uint64_t i = 0; i < sources; ++i) {
      ranks_.push_back(static_cast<int>(at_.memory.source(i).load(std::memory_order_relaxed)) / PartialMemory::kSets);
    }
    fixed_round_ = at_.round;
    if (!fixed_ || ranks_ != fixed_ranks_) {
      fixed_ = fixed_tree(at_.ranks, ranks_);
      fixed_ranks_ = ranks_;
    }
  }
  return *fixed_;
}

}  // namespace stretto
