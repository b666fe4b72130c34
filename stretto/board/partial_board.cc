#include "stretto/board/partial_board.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/board/fixed_tree.h"
#include "stretto/board/partial_record.h"
#include "stretto/board/partial_seat.h"
#include "stretto/board/plan_words.h"

namespace stretto {
namespace {

/// So many deposits are worth a pass over the sum before the round starts.
constexpr std::uint64_t kEarlySources = 4;
/// Smaller contributions are summed in the time it takes to look.
constexpr std::uint64_t kEarlyBytes = 64 << 10;
/// From so many pieces on others are woken to help.
constexpr std::uint64_t kManyPieces = 4;

}  // namespace

PartialBoard::PartialBoard(PartialMemory& memory, int seat, PartialRule& rule, std::function<void(int)> ring,
                           bool interleaved)
    : memory_(memory),
      rank_(seat),
      ranks_(memory.ranks()),
      rule_(rule),
      ring_(std::move(ring)),
      interleaved_(interleaved),
      attendance_{RankSet(ranks_), RankSet(ranks_)},
      in_list_(static_cast<std::size_t>(ranks_)),
      next_piece_(memory.num_pieces() * static_cast<std::uint64_t>(seat) / static_cast<std::uint64_t>(ranks_)),
      trees_(2 * static_cast<std::size_t>(ranks_) + 2) {}

bool PartialBoard::step(bool waiting) {
  waiting_ = waiting;
  do {
    doing_ = take_step();
  } while (!interleaved_ && doing_ != Doing::nothing);
  if (doing_ != Doing::nothing) return true;
  doing_ = Doing::look;
  return std::exchange(did_, false);
}

PartialBoard::Doing PartialBoard::take_step() {
  switch (doing_) {
    case Doing::look: return look();
    case Doing::look_at_seat: return look_at_seat();
    case Doing::look_at_lag: return look_at_lag();
    case Doing::start: return start();
    case Doing::seal: return seal();
    case Doing::end_sealing: return end_sealing();
    case Doing::end_round: return end_round();
    case Doing::plan: return plan();
    case Doing::list_seat: return list_seat();
    case Doing::publish: return publish();
    case Doing::find_piece: return find_piece();
    case Doing::sum: return sum();
    case Doing::release: return release();
    case Doing::nothing: break;
  }
  return Doing::nothing;
}

RoundHeader PartialBoard::header(Round round) const {
  STRETTO_CHECK(round < memory_.done(), "round ", round, " is asked for before it is summed");
  std::optional<RoundHeader> header = kept_header(round);
  STRETTO_CHECK(header, "the header of round ", round, " is gone in round ", complete());
  return *std::move(header);
}

std::optional<RoundHeader> PartialBoard::kept_header(Round round) const {
  return read_record(memory_, round);
}

int PartialBoard::wake_helpers() {
  return memory_.words().sleepers.wake(ranks_, std::max(1, memory_.shape().helpers), ring_);
}

bool PartialBoard::all_have(int buckets) const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const Round open = complete();
  for (int rank = 0; rank < ranks_; ++rank) {
    SeatWord word(memory_.seat(rank).load(std::memory_order_seq_cst));
    if (word.sealed() && word.round() < open) word = word.reopened();
    if (word.round() != open || (!word.arrived() && !word.drained())) return false;
    if (!word.empty() && memory_.set(rank, word.first()).ready.load(std::memory_order_acquire) < buckets) return false;
  }
  return true;
}

int PartialBoard::wake_one() {
  return memory_.words().sleepers.wake(ranks_, 1, ring_);
}

std::atomic<std::uint32_t>* PartialBoard::signal() {
  return memory_.words().sleepers.signal();
}

bool PartialBoard::go_in() {
  Sleepers& sleepers = memory_.words().sleepers;
  if (sleepers.contains(rank_)) return false;
  sleepers.go_in(rank_);
  return true;
}

void PartialBoard::leave() {
  Sleepers& sleepers = memory_.words().sleepers;
  if (sleepers.contains(rank_)) sleepers.leave(rank_);
}

// ---- a round starts ----

PartialBoard::Doing PartialBoard::look() {
  const std::uint64_t stage = memory_.words().stage.load(std::memory_order_seq_cst);
  round_ = stage >> 2;
  stage_ = static_cast<Stage>(stage & 3);
  seat_ = 0;
  looked_ = 0;
  if (stage_ == kSealing) return Doing::seal;
  if (stage_ == kSumming) return Doing::end_round;
  changes_ = memory_.words().changes.load(std::memory_order_seq_cst);
  held_ = early_ = false;
  if (changes_ == attended_ && attended_round_ == round_) {
    return rule_.may_start(round_, attendance_) ? Doing::look_at_lag : sum_early();
  }
  attendance_.arrived.clear();
  attendance_.drained.clear();
  attendance_.first_arrival = 0;
  return Doing::look_at_seat;
}

PartialBoard::Doing PartialBoard::look_at_seat() {
  const SeatWord word(memory_.seat(seat_).load(std::memory_order_seq_cst));
  if (word.drained()) attendance_.drained.insert(seat_);
  if (!word.sealed() && word.round() == round_ && word.arrived()) {
    attendance_.arrived.insert(seat_);
    const std::int64_t since = memory_.arrived_at(seat_).load(std::memory_order_relaxed);
    if (attendance_.first_arrival == 0 || since < attendance_.first_arrival) attendance_.first_arrival = since;
  }
  if (++seat_ < ranks_) return Doing::look_at_seat;
  seat_ = 0;
  attended_ = changes_;
  attended_round_ = round_;
  return rule_.may_start(round_, attendance_) ? Doing::look_at_lag : sum_early();
}

PartialBoard::Doing PartialBoard::look_at_lag() {
  if (seat_ == 0) least_handed_ = std::numeric_limits<Round>::max();
  least_handed_ = std::min(least_handed_, Round{memory_.handed(seat_).load(std::memory_order_seq_cst)});
  if (++seat_ < ranks_) return Doing::look_at_lag;
  seat_ = 0;
  const Round bound = least_handed_ + static_cast<Round>(memory_.shape().max_lag);
  const bool within = defect(Defect::lag_off_by_one) ? round_ <= bound : round_ < bound;
  if (early_) return within ? Doing::plan : Doing::nothing;
  if (within) return Doing::start;
  if (held_) return Doing::nothing;
  // Pairs with PartialSeat::hand_over(): who moves on from here on sees this; who has moved on is seen by a second
  // look.
  memory_.words().held.store(round_ + 1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  held_ = true;
  return defect(Defect::held_without_second_look) ? Doing::nothing : Doing::look_at_lag;
}

PartialBoard::Doing PartialBoard::start() {
  std::uint64_t open = round_ << 2 | kOpen;
  if (memory_.words().stage.compare_exchange_strong(open, round_ << 2 | kSealing, std::memory_order_seq_cst)) {
    did_ = true;
    memory_.words().held.store(0, std::memory_order_seq_cst);
    rule_.started(round_, attendance_);
  }
  return Doing::look;
}

// Sealed by a compare-and-swap, whatever is there: ranks that merely looked at empty seats would disagree on who is in.
PartialBoard::Doing PartialBoard::seal() {
  auto& seat = memory_.seat(seat_);
  std::uint64_t bits = seat.load(std::memory_order_seq_cst);
  const SeatWord word(bits);
  if (!word.sealed_at_least(round_)) {
    const SeatWord sealed = word.to_seal(round_);
    if (!defect(Defect::seal_skips_empty) || !sealed.empty() || sealed.arrived()) {
      seat.compare_exchange_strong(bits, sealed.bits(), std::memory_order_seq_cst);
      return Doing::seal;
    }
    note_sealed(memory_, seat_, sealed);
  } else if (word.sealed() && word.round() == round_) {
    note_sealed(memory_, seat_, word);
  }
  return ++seat_ < ranks_ ? Doing::seal : Doing::end_sealing;
}

PartialBoard::Doing PartialBoard::end_sealing() {
  std::uint64_t sealing = round_ << 2 | kSealing;
  memory_.words().stage.compare_exchange_strong(sealing, round_ << 2 | kSumming, std::memory_order_seq_cst);
  did_ = true;
  return Doing::look;
}

PartialBoard::Doing PartialBoard::end_round() {
  if (memory_.words().done.load(std::memory_order_acquire) != (round_ + 1) * memory_.num_pieces()) return Doing::plan;
  if (memory_.several_boards() && !defect(Defect::publish_before_boards)) return Doing::nothing;
  open_next();
  did_ = true;
  return Doing::look;
}

void PartialBoard::open_next() {
  auto& words = memory_.words();
  std::uint64_t summing = round_ << 2 | kSumming;
  if (!words.stage.compare_exchange_strong(summing, (round_ + 1) << 2 | kOpen, std::memory_order_seq_cst)) return;
  if (interleaved_) {
    words.sleepers.wake(ranks_, ranks_, ring_);
  } else {
    words.sleepers.wake_all(ranks_, ring_);
  }
}

void PartialBoard::end(Round round, const RoundHeader& header) {
  STRETTO_CHECK(round == complete() && memory_.done() == round + 1, "round ", round, " ends in round ", complete(),
                ", of which ", memory_.words().done.load(std::memory_order_relaxed), " pieces are summed");
  std::array<std::uint64_t, 2> own{};
  rule_.planned(round, header, own);
  write_record(memory_, round, header, own);
  round_ = round;
  open_next();
  doing_ = Doing::look;
}

/// With several boards, whoever counts the last one of a bucket tells the leader.
void PartialBoard::count_done(std::size_t bucket, std::uint64_t pieces) {
  memory_.words().done.fetch_add(pieces, std::memory_order_acq_rel);
  if (!memory_.several_boards()) return;
  const std::uint64_t done = memory_.bucket_done(bucket).fetch_add(pieces, std::memory_order_acq_rel) + pieces;
  const bool all = done == (round_ + 1) * memory_.pieces_of(bucket);
  if (all && rank_ != 0 && !defect(Defect::sum_without_ring)) ring_(0);
}

// ---- what is to be summed ----

PartialBoard::Doing PartialBoard::sum_early() {
  seat_ = 0;
  const PartialShape& shape = memory_.shape();
  const bool worth = waiting_ && shape.order == SumOrder::arrival &&
                     (memory_.set_bytes() >= kEarlyBytes || interleaved_) && ranks_ > 2;
  if (!worth) return Doing::nothing;
  if (memory_.several_boards()) return memory_.sum_is_free(round_) ? Doing::plan : Doing::nothing;
  // Where the result goes another one may lie that somebody has yet to be handed.
  early_ = true;
  return Doing::look_at_lag;
}

PartialBoard::Doing PartialBoard::plan() {
  auto& word = memory_.words().plan;
  std::uint64_t bits = word.load(std::memory_order_acquire);
  const PlanWord seen(bits);
  plan_bits_ = bits;
  if (seen.round() > round_) return Doing::look;
  const bool current = seen.round() == round_;
  const bool wanted = stage_ == kSumming || planned_at_ != changes_ + 1;
  if (!wanted || (current && seen.final())) return Doing::find_piece;
  if (seen.busy()) return current ? Doing::find_piece : Doing::nothing;
  listed_ = current ? seen.sources() : 0;
  // Who succeeds knows that the round goes on: it ends with a final plan, which the word would show.
  if (!word.compare_exchange_strong(bits, PlanWord(round_, listed_, false).as_busy().bits(),
                                    std::memory_order_acq_rel)) {
    return Doing::plan;
  }
  if (!current) memory_.touch_sums(round_);
  planned_at_ = changes_ + 1;
  list_end_ = listed_;
  std::fill(in_list_.begin(), in_list_.end(), std::uint8_t{0});
  for (std::uint64_t i = 0; i < listed_; ++i) {
    const std::uint32_t source = memory_.source(i).load(std::memory_order_relaxed);
    in_list_[source / PartialMemory::kSets] |= static_cast<std::uint8_t>(1u << source % PartialMemory::kSets);
  }
  return Doing::list_seat;
}

PartialBoard::Doing PartialBoard::list_seat() {
  if (stage_ == kSumming) {
    const SeatWord word(memory_.sealed(round_, seat_).load(std::memory_order_acquire));
    STRETTO_CHECK(word.sealed() && word.round() == round_, "round ", round_, " lacks seat ", seat_);
    list(seat_, word.first());
    list(seat_, word.second());
  } else {
    // What is first on a seat stays there until the seat is sealed, and goes into this round; what is second, too, once
    // the application waits and deposits no more.
    const SeatWord word(memory_.seat(seat_).load(std::memory_order_seq_cst));
    if (word.round() == round_ && whole(seat_, word.first())) list(seat_, word.first());
    if (word.round() == round_ && word.arrived() && whole(seat_, word.second())) list(seat_, word.second());
    if (defect(Defect::sum_unpublished) && word.reopened().round() == round_ && word.reopened().empty()) list(seat_, 0);
  }
  if (++seat_ < ranks_) return Doing::list_seat;
  seat_ = 0;
  return Doing::publish;
}

/// Whether all buckets of a set have been handed over.
bool PartialBoard::whole(int rank, int set) const {
  const auto buckets = static_cast<int>(memory_.shape().buckets.size());
  return set >= 0 && memory_.set(rank, set).ready.load(std::memory_order_acquire) == buckets;
}

void PartialBoard::list(int rank, int set) {
  if (set < 0 || (in_list_[static_cast<std::size_t>(rank)] >> set & 1) != 0) return;
  const auto source = static_cast<std::uint32_t>(rank * PartialMemory::kSets + set);
  memory_.source(list_end_++).store(source, std::memory_order_relaxed);
}

PartialBoard::Doing PartialBoard::publish() {
  auto& words = memory_.words();
  const bool final = stage_ == kSumming;
  if (final) {
    write_header();
    for (std::size_t i = 0; i < memory_.shape().buckets.size() && list_end_ == 0; ++i) {
      count_done(i, memory_.pieces_of(i));
    }
  } else if (list_end_ - listed_ < kEarlySources && !(interleaved_ && list_end_ > listed_)) {
    list_end_ = listed_;
  }
  did_ |= final || list_end_ > listed_;
  words.plan.store(PlanWord(round_, list_end_, final).bits(), std::memory_order_release);
  if (final && memory_.num_pieces() >= kManyPieces) wake_helpers();
  return Doing::look;
}

/// Of what comes to this board; where there are several, end() puts what comes to all in its place.
void PartialBoard::write_header() const {
  // For the arrivals, as write_record() for the rest: pairs with read_record().
  std::atomic_thread_fence(std::memory_order_release);
  RoundHeader header(memory_.job_ranks());
  const auto arrivals = memory_.arrivals(round_);
  for (int seat = 0; seat < ranks_; ++seat) {
    const int rank = memory_.shape().first_rank + seat;
    const SeatWord word(memory_.sealed(round_, seat).load(std::memory_order_acquire));
    if (word.arrived()) header.arrived.insert(rank);
    if (word.drained()) header.drained.insert(rank);
    arrivals[static_cast<std::size_t>(seat)].store(
        word.arrived() ? memory_.arrived_at(seat).load(std::memory_order_relaxed) : 0, std::memory_order_relaxed);
    if (word.empty()) {
      rule_.taken(round_, seat, nullptr);
      continue;
    }
    ContributionFacts facts = memory_.set(seat, word.first()).facts;
    if (word.second() >= 0) facts = facts + memory_.set(seat, word.second()).facts;
    enter(header, round_, rank, facts);
    rule_.taken(round_, seat, &facts);
  }
  memory_.record(round_).sealed_at.store(rule_.now(), std::memory_order_relaxed);
  std::array<std::uint64_t, 2> own{};
  if (!memory_.several_boards()) rule_.planned(round_, header, own);
  write_record(memory_, round_, header, own);
}

// ---- the sum ----

PartialBoard::Doing PartialBoard::find_piece() {
  const PlanWord plan(plan_bits_);
  if (plan.round() != round_ || (plan.sources() == 0 && !plan.final())) return Doing::nothing;
  if (plan.sources() == 0) return Doing::look;
  if (looked_++ == memory_.num_pieces()) return Doing::nothing;
  const std::uint64_t index = next_piece_;
  auto& piece = memory_.piece(index);
  std::uint64_t bits = piece.load(std::memory_order_acquire);
  const PieceWord seen(bits);
  if (seen.round() > round_) return Doing::look;
  const PieceWord word = seen.round() == round_ ? seen : PieceWord(round_, 0, false);
  const bool finishes = plan.final() && ready(memory_.piece_at(index).bucket);
  if (word.busy()) {
    // Whoever has it looks at the plan once more before letting go.
    if (!piece.compare_exchange_strong(bits, word.with_again().bits(), std::memory_order_acq_rel)) {
      --looked_;
      return Doing::find_piece;
    }
  } else if (!word.finished() && (finishes || (!plan.final() && word.sources() < plan.sources()))) {
    held_bits_ = word.as_busy().bits();
    if (!piece.compare_exchange_strong(bits, held_bits_, std::memory_order_acq_rel)) {
      --looked_;
      return Doing::find_piece;
    }
    piece_ = index;
    from_ = word.sources();
    finishes_ = finishes;
    return Doing::sum;
  } else if (!word.finished() && plan.final()) {
    return Doing::nothing;  // buckets are handed over in order
  }
  next_piece_ = index + 1 == memory_.num_pieces() ? 0 : index + 1;
  return Doing::find_piece;
}

PartialBoard::Doing PartialBoard::sum() {
  const std::uint64_t to = PlanWord(plan_bits_).sources();
  if (from_ < to) {
    const PartialMemory::Piece piece = memory_.piece_at(piece_);
    const BucketSpec& bucket = memory_.shape().buckets[piece.bucket];
    std::byte* sum = memory_.sum(round_, piece.bucket).data() + piece.offset;
    sources_.clear();
    if (from_ > 0) sources_.push_back(sum);
    for (std::uint64_t i = from_; i < to; ++i) {
      const auto source = static_cast<int>(memory_.source(i).load(std::memory_order_relaxed));
      const int rank = source / PartialMemory::kSets, set = source % PartialMemory::kSets;
      const auto ready = static_cast<std::size_t>(memory_.set(rank, set).ready.load(std::memory_order_acquire));
      STRETTO_CHECK(piece.bucket < ready, "bucket ", piece.bucket, " of rank ", rank, " is summed before it is there");
      sources_.push_back(memory_.data(rank, set, piece.bucket).data() + piece.offset);
    }
    combine(combination(sources_.size()), bucket.type, memory_.shape().op, sum, sources_,
            piece.bytes / size_of(bucket.type));
    from_ = to;
  }
  did_ = true;
  return Doing::release;
}

PartialBoard::Doing PartialBoard::release() {
  auto& words = memory_.words();
  auto& piece = memory_.piece(piece_);
  std::uint64_t bits = held_bits_;
  if (piece.compare_exchange_strong(bits, PieceWord(round_, from_, finishes_).bits(), std::memory_order_acq_rel)) {
    if (finishes_) count_done(memory_.piece_at(piece_).bucket, 1);
    next_piece_ = piece_ + 1 == memory_.num_pieces() ? 0 : piece_ + 1;
    looked_ = 0;
    // Something may have to be done that is more urgent than the next piece.
    return stage_ == kSumming && words.done.load(std::memory_order_relaxed) != (round_ + 1) * memory_.num_pieces()
               ? Doing::find_piece
               : Doing::look;
  }
  // Somebody has come by and left word. Take it back before looking at the plan.
  piece.store(held_bits_, std::memory_order_seq_cst);
  plan_bits_ = words.plan.load(std::memory_order_seq_cst);
  const PlanWord plan(plan_bits_);
  finishes_ = plan.final() && ready(memory_.piece_at(piece_).bucket);
  if (plan.final() && !finishes_) plan_bits_ = PlanWord(round_, from_, false).bits();
  return Doing::sum;
}

/// Whether all whose deposits the round sums have handed over a bucket. Requires: the plan is final.
bool PartialBoard::ready(std::size_t bucket) {
  if (ready_round_ != round_) ready_buckets_ = 0;
  ready_round_ = round_;
  if (bucket < ready_buckets_) return true;
  int least = static_cast<int>(memory_.shape().buckets.size());
  const std::uint64_t sources = PlanWord(plan_bits_).sources();
  for (std::uint64_t i = 0; i < sources; ++i) {
    const auto source = static_cast<int>(memory_.source(i).load(std::memory_order_relaxed));
    const auto& set = memory_.set(source / PartialMemory::kSets, source % PartialMemory::kSets);
    least = std::min(least, set.ready.load(std::memory_order_acquire));
  }
  ready_buckets_ = static_cast<std::size_t>(least);
  return bucket < ready_buckets_;
}

/// In the order of arrival any shape will do, and a tree is fast; in the fixed order it is the one of all ranks without
/// those that have brought nothing. Requires: the sources of this round's plan.
const Combination& PartialBoard::combination(std::size_t sources) {
  if (memory_.shape().order == SumOrder::arrival) {
    auto& tree = trees_[sources];
    if (!tree) tree = Combination::tree(static_cast<int>(sources));
    return *tree;
  }
  if (!fixed_ || fixed_round_ != round_) {
    std::vector<int> ranks;
    for (std::uint64_t i = 0; i < sources; ++i) {
      ranks.push_back(static_cast<int>(memory_.source(i).load(std::memory_order_relaxed)) / PartialMemory::kSets);
    }
    fixed_ = fixed_tree(ranks_, ranks);
    fixed_round_ = round_;
  }
  return *fixed_;
}

}  // namespace stretto
