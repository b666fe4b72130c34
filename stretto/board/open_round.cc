#include "stretto/board/open_round.h"

#include <algorithm>
#include <array>
#include <limits>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/board/partial_memory.h"
#include "stretto/board/partial_seat.h"
#include "stretto/kernel/combination.h"

namespace stretto {
namespace {

/// Smaller contributions are summed in the time it takes to look.
constexpr std::uint64_t kEarlyBytes = 64 << 10;

/// The number of deposits that is worth a pass over the sum before the round starts.
constexpr std::uint64_t kEarlySources = 4;
/// The number of pieces from which on sleepers are woken to help.
constexpr std::uint64_t kManyPieces = 4;

}  // namespace

void OpenRound::count_done(std::size_t bucket, std::uint64_t pieces) {
  memory.words().done.fetch_add(pieces, std::memory_order_acq_rel);
  if (!memory.several_boards()) return;
  const std::uint64_t done = memory.bucket_done(bucket).fetch_add(pieces, std::memory_order_acq_rel) + pieces;
  const bool all = done == (round + 1) * memory.pieces_of(bucket);
  if (all && rank != 0 && !defect(Defect::sum_without_ring)) ring(0);
}

int OpenRound::wake_helpers() {
  return memory.words().sleepers.wake(ranks, std::max(1, memory.shape().helpers), ring);
}

BoardStep PartialStart::look() {
  at_.changes = at_.memory.words().changes.load(std::memory_order_seq_cst);
  held_ = early_ = false;
  if (at_.changes == attended_ && attended_round_ == at_.round) return ask();
  attendance_.arrived.clear();
  attendance_.drained.clear();
  attendance_.first_arrival = 0;
  return BoardStep::look_at_seat;
}

BoardStep PartialStart::ask() {
  return at_.rule.may_start(at_.round, attendance_) ? BoardStep::look_at_lag : sum_early();
}

BoardStep PartialStart::look_at_seat() {
  const SeatWord word(at_.memory.seat(at_.seat).load(std::memory_order_seq_cst));
  if (word.drained()) attendance_.drained.insert(at_.seat);
  if (!word.sealed() && word.round() == at_.round && word.arrived()) {
    attendance_.arrived.insert(at_.seat);
    const std::int64_t since = at_.memory.arrived_at(at_.seat).load(std::memory_order_relaxed);
    if (attendance_.first_arrival == 0 || since < attendance_.first_arrival) attendance_.first_arrival = since;
  }
  if (++at_.seat < at_.ranks) return BoardStep::look_at_seat;
  at_.seat = 0;
  attended_ = at_.changes;
  attended_round_ = at_.round;
  return ask();
}

BoardStep PartialStart::look_at_lag() {
  if (at_.seat == 0) least_handed_ = std::numeric_limits<Round>::max();
  least_handed_ = std::min(least_handed_, Round{at_.memory.handed(at_.seat).load(std::memory_order_seq_cst)});
  if (++at_.seat < at_.ranks) return BoardStep::look_at_lag;
  at_.seat = 0;
  const Round bound = least_handed_ + static_cast<Round>(at_.memory.shape().max_lag);
  const bool within = defect(Defect::lag_off_by_one) ? at_.round <= bound : at_.round < bound;
  if (early_) return within ? BoardStep::plan : BoardStep::nothing;
  if (within) return BoardStep::start;
  if (held_) return BoardStep::nothing;
  // Pairs with PartialSeat::hand_over() (docs/boards.md, B4). A rank that raises its handed count after this store
  // sees the store; one that raised it before is seen by the second look.
  at_.memory.words().held.store(at_.round + 1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  held_ = true;
  return defect(Defect::held_without_second_look) ? BoardStep::nothing : BoardStep::look_at_lag;
}

BoardStep PartialStart::sum_early() {
  at_.seat = 0;
  const PartialShape& shape = at_.memory.shape();
  const bool worth = at_.waiting && shape.order == SumOrder::arrival &&
                     (at_.memory.set_bytes() >= kEarlyBytes || at_.interleaved) && at_.ranks > 2;
  if (!worth) return BoardStep::nothing;
  if (at_.memory.several_boards()) return at_.memory.sum_is_free(at_.round) ? BoardStep::plan : BoardStep::nothing;
  // An older result may lie where the sum goes, and some rank may not have been handed it yet.
  early_ = true;
  return BoardStep::look_at_lag;
}

BoardStep PartialStart::start() {
  std::uint64_t open = at_.round << 2 | PartialMemory::kOpen;
  if (at_.memory.words().stage.compare_exchange_strong(open, at_.round << 2 | PartialMemory::kSealing,
                                                       std::memory_order_seq_cst)) {
    at_.did = true;
    at_.memory.words().held.store(0, std::memory_order_seq_cst);
    at_.rule.started(at_.round, attendance_);
  }
  return BoardStep::look;
}

BoardStep PartialPlan::plan() {
  auto& word = at_.memory.words().plan;
  std::uint64_t bits = word.load(std::memory_order_acquire);
  const PlanWord seen(bits);
  at_.plan = bits;
  if (seen.round() > at_.round) return BoardStep::look;
  const bool current = seen.round() == at_.round;
  const bool wanted = at_.stage == PartialMemory::kSumming || planned_at_ != at_.changes + 1;
  if (!wanted || (current && seen.final())) return BoardStep::find_piece;
  if (seen.busy()) return current ? BoardStep::find_piece : BoardStep::nothing;
  listed_ = current ? seen.sources() : 0;
  // If the swap succeeds, at_.round has not ended: ending needs a final plan, and then the word would differ.
  if (!word.compare_exchange_strong(bits, PlanWord(at_.round, listed_, false).as_busy().bits(),
                                    std::memory_order_acq_rel)) {
    return BoardStep::plan;
  }
  if (!current) at_.memory.touch_sums(at_.round);
  planned_at_ = at_.changes + 1;
  list_end_ = listed_;
  std::fill(in_list_.begin(), in_list_.end(), std::uint8_t{0});
  for (std::uint64_t i = 0; i < listed_; ++i) {
    const std::uint32_t source = at_.memory.source(i).load(std::memory_order_relaxed);
    in_list_[source / PartialMemory::kSets] |= static_cast<std::uint8_t>(1u << source % PartialMemory::kSets);
  }
  return BoardStep::list_seat;
}

BoardStep PartialPlan::list_seat() {
  if (at_.stage == PartialMemory::kSumming) {
    const SeatWord word(at_.memory.sealed(at_.round, at_.seat).load(std::memory_order_acquire));
    STRETTO_CHECK(word.sealed() && word.round() == at_.round, "round ", at_.round, " lacks seat ", at_.seat);
    list(at_.seat, word.first());
    list(at_.seat, word.second());
  } else {
    // The first set of a seat stays there until the seat is sealed, and goes into this round. So does the second set,
    // once the application waits and deposits no more.
    const SeatWord word(at_.memory.seat(at_.seat).load(std::memory_order_seq_cst));
    if (word.round() == at_.round && whole(at_.seat, word.first())) list(at_.seat, word.first());
    if (word.round() == at_.round && word.arrived() && whole(at_.seat, word.second())) list(at_.seat, word.second());
    if (defect(Defect::sum_unpublished) && word.reopened().round() == at_.round && word.reopened().empty())
      list(at_.seat, 0);
  }
  if (++at_.seat < at_.ranks) return BoardStep::list_seat;
  at_.seat = 0;
  return BoardStep::publish;
}

/// Whether all buckets of a set have been handed over.
bool PartialPlan::whole(int rank, int set) const {
  const auto buckets = static_cast<int>(at_.memory.shape().buckets.size());
  return set >= 0 && at_.memory.set(rank, set).ready.load(std::memory_order_acquire) == buckets;
}

void PartialPlan::list(int rank, int set) {
  if (set < 0 || (in_list_[static_cast<std::size_t>(rank)] >> set & 1) != 0) return;
  const auto source = static_cast<std::uint32_t>(rank * PartialMemory::kSets + set);
  at_.memory.source(list_end_++).store(source, std::memory_order_relaxed);
}

BoardStep PartialPlan::publish() {
  auto& words = at_.memory.words();
  const bool final = at_.stage == PartialMemory::kSumming;
  if (final) {
    write_header();
    for (std::size_t i = 0; i < at_.memory.shape().buckets.size() && list_end_ == 0; ++i) {
      at_.count_done(i, at_.memory.pieces_of(i));
    }
  } else if (list_end_ - listed_ < kEarlySources && !(at_.interleaved && list_end_ > listed_)) {
    list_end_ = listed_;
  }
  at_.did |= final || list_end_ > listed_;
  words.plan.store(PlanWord(at_.round, list_end_, final).bits(), std::memory_order_release);
  if (final && at_.memory.num_pieces() >= kManyPieces) at_.wake_helpers();
  return BoardStep::look;
}

/// Writes the header of this board's contributions. With several boards end() replaces it by that of all boards.
void PartialPlan::write_header() {
  // For the arrivals, as write_record() for the rest: pairs with read_record().
  std::atomic_thread_fence(std::memory_order_release);
  RoundHeader& header = header_;
  header.reset(at_.memory.job_ranks());
  const auto arrivals = at_.memory.arrivals(at_.round);
  for (int seat = 0; seat < at_.ranks; ++seat) {
    const int rank = at_.memory.rank_at(seat);
    const SeatWord word(at_.memory.sealed(at_.round, seat).load(std::memory_order_acquire));
    if (word.arrived()) header.arrived.insert(rank);
    if (word.drained()) header.drained.insert(rank);
    arrivals[static_cast<std::size_t>(seat)].store(
        word.arrived() ? at_.memory.arrived_at(seat).load(std::memory_order_relaxed) : 0, std::memory_order_relaxed);
    if (word.empty()) {
      at_.rule.taken(at_.round, seat, nullptr);
      continue;
    }
    ContributionFacts facts = at_.memory.set(seat, word.first()).facts;
    if (word.second() >= 0) facts = facts + at_.memory.set(seat, word.second()).facts;
    enter(header, at_.memory.shape().rounds_before + at_.round, rank, facts);
    at_.rule.taken(at_.round, seat, &facts);
  }
  at_.memory.record(at_.round).sealed_at.store(at_.rule.now(), std::memory_order_relaxed);
  std::array<std::uint64_t, 2> own{};
  if (!at_.memory.several_boards()) at_.rule.planned(at_.round, header, own);
  write_record(at_.memory, at_.round, header, own);
}

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
    // Buckets are handed over in order: what can be summed now lies before this piece.
    if (index == 0 || from_first_) return BoardStep::nothing;
    from_first_ = true;
    looked_ = 0;
    next_piece_ = 0;
    return BoardStep::find_piece;
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
