#include "stretto/board/groups/group_parts.h"

#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/kernel/combine.h"

namespace stretto {

GroupParts::GroupParts(GroupMemory& memory, Joined joined, Ready ready, bool interleaved)
    : memory_(memory),
      joined_(std::move(joined)),
      ready_(std::move(ready)),
      interleaved_(interleaved),
      trees_(static_cast<std::size_t>(memory.ranks()) + 1) {}

void GroupParts::begin(Round round, std::vector<GroupPart> parts) {
  STRETTO_CHECK(!busy(), "a round begins while ", parts_.size() - at_, " parts are not summed");
  round_ = round;
  parts_ = std::move(parts);
  at_ = 0;
  next_ = Step::claim;
}

void GroupParts::step() {
  // A sum may take long, and the engine has other things to do in between.
  Step done = Step::claim;
  do {
    done = next_;
    blocked_ = false;
    next_ = take_step();
  } while (busy() && !interleaved_ && done != Step::sum && !blocked_);
}

GroupParts::Step GroupParts::take_step() {
  switch (next_) {
    case Step::claim: return claim();
    case Step::claim_seat: return claim_seat();
    case Step::read_model:
      model_ = NumberedWord(memory_.seat(seat()).model.load(std::memory_order_seq_cst));
      return memory_.shape().moves != nullptr ? enter_seat() : Step::pin_model;
    case Step::pin_model:
      memory_.set(seat(), static_cast<int>(model_.index())).pins.fetch_add(1, std::memory_order_seq_cst);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      return Step::look_again;
    case Step::look_again: return look_again();
    case Step::unpin_again:
      memory_.set(seat(), static_cast<int>(model_.index())).pins.fetch_sub(1, std::memory_order_seq_cst);
      return Step::read_model;
    case Step::sum: return sum();
    case Step::unpin: return unpin();
  }
  return Step::claim;
}

/// Only this rank claims results, and its members hold no more than two each: there is a free one.
std::uint64_t GroupParts::claim_result(std::size_t uses) {
  for (std::uint64_t index = 0;; index = (index + 1) % memory_.results()) {
    GroupMemory::Result& result = memory_.result(index);
    std::uint32_t free = 0;
    if (!result.uses.compare_exchange_strong(free, static_cast<std::uint32_t>(uses), std::memory_order_seq_cst)) {
      continue;
    }
    if (!std::exchange(result.touched, true)) memory_.touch_sum(index);
    return index;
  }
}

GroupParts::Step GroupParts::claim() {
  GroupPart& part = this->part();
  part.result = claim_result(part.seats.size() + 1);  // one of each member, and the round's own
  part.sum = part.whole() || part.alone() ? part.result : claim_result(1);
  member_ = 0;
  return memory_.shape().moves != nullptr ? Step::claim_seat : Step::read_model;
}

/// The seat's rank may be about to put a step on the model that stands, and waits for nothing meanwhile.
GroupParts::Step GroupParts::claim_seat() {
  blocked_ = !memory_.seat(seat()).claim();
  return blocked_ ? Step::claim_seat : Step::read_model;
}

// Between the look and the pin the member may have published newer models, and may write to this one by now.
GroupParts::Step GroupParts::look_again() {
  const bool stands = memory_.seat(seat()).model.load(std::memory_order_seq_cst) == model_.bits();
  if (!stands && !defect(Defect::group_board_no_second_look)) return Step::unpin_again;
  return enter_seat();
}

GroupParts::Step GroupParts::enter_seat() {
  memory_.own(part().result, seat()) = {model_.number(), static_cast<int>(model_.index())};
  joined_(seat(), model_.number());
  if (++member_ < part().seats.size()) {
    return memory_.shape().moves != nullptr ? Step::claim_seat : Step::read_model;
  }
  member_ = 0;
  piece_ = 0;
  enter_header();
  if (!part().alone()) return Step::sum;
  // The pin of what is sent is beside that of the result, which may be given up earlier.
  if (memory_.shape().keep_own) pins_of(part(), seat()).fetch_add(1, std::memory_order_seq_cst);
  return finish();
}

/// As long as the models are pinned: a member may write to one that is in the sum.
void GroupParts::enter_header() {
  part().header = RoundHeader(memory_.job_ranks());
  for (const int seat : part().seats) {
    memory_.enter_model(part().header, round_, seat, memory_.own(part().result, seat).set);
  }
}

GroupParts::Step GroupParts::sum() {
  const GroupMemory::Piece piece = memory_.piece_at(piece_);
  const DataType type = memory_.shape().buckets[piece.bucket].type;
  sources_.clear();
  for (const int seat : part().seats) {
    const auto place = static_cast<std::uint64_t>(memory_.own(part().result, seat).set);
    sources_.push_back(memory_.standing(seat, place, piece.bucket).data() + piece.offset);
  }
  auto& tree = trees_[sources_.size()];
  if (tree == nullptr) {
    tree = std::make_unique<Combination>(Combination::tree(static_cast<int>(sources_.size())));
  }
  combine(*tree, type, ReduceOp::sum, memory_.sum(part().sum, piece.bucket).data() + piece.offset, sources_,
          piece.bytes / size_of(type));
  if (++piece_ < memory_.num_pieces()) return Step::sum;
  return memory_.shape().keep_own || memory_.shape().moves != nullptr ? finish() : Step::unpin;
}

GroupParts::Step GroupParts::unpin() {
  pins_of(part(), seat()).fetch_sub(1, std::memory_order_seq_cst);
  return ++member_ < part().seats.size() ? Step::unpin : finish();
}

GroupParts::Step GroupParts::finish() {
  const GroupPart& done = parts_[at_++];
  ready_(done);
  return Step::claim;
}

std::span<std::byte> GroupParts::summed(const GroupPart& part, std::size_t bucket) const {
  if (!part.alone()) return memory_.sum(part.sum, bucket);
  const int seat = part.seats[0];
  return memory_.standing(seat, static_cast<std::uint64_t>(memory_.own(part.result, seat).set), bucket);
}

void GroupParts::average(const GroupPart& part) {
  const ModelMath* math = memory_.shape().moves;
  for (std::size_t b = 0; math != nullptr && b < memory_.shape().buckets.size(); ++b) {
    const auto sum = memory_.sum(part.result, b);
    math->mean(memory_.shape().buckets[b].type, sum, sum, part.members);
  }
}

/// A member that reads the older result counts twice among its uses, and looks once more whether it was its newest.
void GroupParts::hand_over(Round round, const GroupPart& part) {
  for (const int seat : part.seats) {
    const NumberedWord newest(round + 1, part.result);
    if (memory_.shape().moves != nullptr) {
      memory_.give_back(memory_.stand(seat, part.result));
      memory_.seat(seat).give_up();
      memory_.seat(seat).result.store(newest.bits(), std::memory_order_seq_cst);
      continue;
    }
    const NumberedWord older(memory_.seat(seat).result.exchange(newest.bits(), std::memory_order_seq_cst));
    if (older.number() == 0) continue;
    if (memory_.shape().keep_own) {
      memory_.set(seat, memory_.own(older.index(), seat).set).pins.fetch_sub(1, std::memory_order_seq_cst);
    }
    memory_.result(older.index()).uses.fetch_sub(1, std::memory_order_seq_cst);
  }
}

void GroupParts::release(const GroupPart& part) {
  if (part.alone() && memory_.shape().moves == nullptr)
    pins_of(part, part.seats[0]).fetch_sub(1, std::memory_order_seq_cst);
  if (part.sum != part.result) memory_.result(part.sum).uses.fetch_sub(1, std::memory_order_seq_cst);
  memory_.result(part.result).uses.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace stretto
