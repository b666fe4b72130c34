#include "stretto/board/groups/group_board.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/kernel/combine.h"

namespace stretto {
namespace {

/// The number of pieces from which on sleepers are woken to help.
constexpr std::uint64_t kManyPieces = 4;

}  // namespace

GroupBoard::GroupBoard(GroupMemory& memory, int seat, GroupRule& rule, std::function<void(int)> ring, bool interleaved)
    : memory_(memory),
      rank_(seat),
      rule_(rule),
      ring_(std::move(ring)),
      interleaved_(interleaved),
      pinned_(static_cast<std::size_t>(memory.ranks()), NumberedWord(0)),
      trees_(static_cast<std::size_t>(memory.ranks()) + 1) {}

bool GroupBoard::step(Round round) {
  round_ = round;
  // Pairs with GroupBoardRounds::complete(), which reads the newest result and then this: the application does not go
  // on while this rank may be handing results over, and no sum is begun for an application that has gone on.
  busy_.store(true, std::memory_order_seq_cst);
  do {
    blocked_ = false;
    next_ = take_step();
  } while (!interleaved_ && next_ != Step::nothing && !blocked_);
  if (next_ != Step::nothing) return true;
  next_ = Step::look;
  busy_.store(false, std::memory_order_seq_cst);
  return std::exchange(did_, false);
}

GroupBoard::Step GroupBoard::take_step() {
  switch (next_) {
    case Step::look: return look();
    case Step::look_at_summer: return look_at_summer();
    case Step::look_at_arrival: return look_at_arrival();
    case Step::look_at_started: return look_at_started();
    case Step::count_come: return count_come();
    case Step::start: return start();
    case Step::look_at_taken: return look_at_taken();
    case Step::look_at_model: return look_at_model();
    case Step::begin: return begin();
    case Step::claim_result: return claim_result();
    case Step::claim_seat: return claim_seat();
    case Step::read_model: return read_model();
    case Step::pin_model: return pin_model();
    case Step::look_again: return look_again();
    case Step::unpin_model: return unpin_model();
    case Step::open: return open();
    case Step::find_piece: return find_piece();
    case Step::sum: return sum();
    case Step::count_piece: return count_piece();
    case Step::unpin_source: return unpin_source();
    case Step::stand: return stand();
    case Step::give_back: return give_back();
    case Step::let_go: return let_go();
    case Step::look_at_newest: return look_at_newest();
    case Step::hand_over: return hand_over();
    case Step::release_kept: return release_kept();
    case Step::release_older: return release_older();
    case Step::refuse: return refuse();
    case Step::release: return release();
    case Step::close: return close();
    case Step::nothing: break;
  }
  return Step::nothing;
}

Round GroupBoard::newest() const {
  return NumberedWord(seat(rank_).result.load(std::memory_order_seq_cst)).number();
}

bool GroupBoard::all_have_come(Round round) const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int rank = 0; rank < memory_.ranks(); ++rank) {
    const bool waits = seat(rank).waits_at.load(std::memory_order_seq_cst) == round + 1;
    if (!waits && !seat(rank).drained.load(std::memory_order_seq_cst)) return false;
  }
  return true;
}

bool GroupBoard::go_in() {
  Sleepers& sleepers = memory_.words().sleepers;
  if (sleepers.contains(rank_)) return false;
  sleepers.go_in(rank_);
  return true;
}

void GroupBoard::leave() {
  Sleepers& sleepers = memory_.words().sleepers;
  if (sleepers.contains(rank_)) sleepers.leave(rank_);
}

void GroupBoard::wake_all() {
  if (interleaved_) {
    memory_.words().sleepers.wake(memory_.ranks(), memory_.ranks(), ring_);
  } else {
    memory_.words().sleepers.wake_all(memory_.ranks(), ring_);
  }
}

void GroupBoard::wake_members() {
  for (const int rank : group_.members) {
    if (rank != rank_) memory_.words().sleepers.wake_one(rank, ring_);
  }
}

// ---- may the sum begin? ----

GroupBoard::Step GroupBoard::look() {
  at_ = 0;
  if (newest() > round_) return Step::nothing;
  group_ = rule_.group(round_);
  return Step::look_at_summer;
}

GroupBoard::Step GroupBoard::look_at_summer() {
  began_from_ = memory_.summer(round_, group_.number).load(std::memory_order_seq_cst);
  const NumberedWord summer(began_from_);
  summer_ = static_cast<int>(summer.index());
  if (summer.number() == round_ + 1) return Step::find_piece;
  if (memory_.full(round_)) return Step::look_at_arrival;
  return memory_.shape().quorum > 0 ? Step::look_at_started : Step::look_at_taken;
}

GroupBoard::Step GroupBoard::look_at_arrival() {
  if (seat(member()).waits_at.load(std::memory_order_seq_cst) != round_ + 1) return Step::nothing;
  if (next_member()) return Step::look_at_arrival;
  return Step::begin;
}

// No rank is beyond a round that has not started: it has passed this one only with a result of this one or a later one.
GroupBoard::Step GroupBoard::look_at_started() {
  come_ = 0;
  const bool started = memory_.words().started.load(std::memory_order_seq_cst) > round_;
  return started ? Step::look_at_taken : Step::count_come;
}

GroupBoard::Step GroupBoard::count_come() {
  const GroupMemory::Seat& its = seat(static_cast<int>(at_));
  const bool waits = its.waits_at.load(std::memory_order_seq_cst) == round_ + 1;
  if (waits || its.drained.load(std::memory_order_seq_cst)) ++come_;
  if (++at_ < static_cast<std::size_t>(memory_.ranks())) return Step::count_come;
  at_ = 0;
  return come_ >= memory_.shape().quorum ? Step::start : Step::nothing;
}

GroupBoard::Step GroupBoard::start() {
  std::uint64_t started = memory_.words().started.load(std::memory_order_seq_cst);
  if (started <= round_) {
    if (!memory_.words().started.compare_exchange_strong(started, round_ + 1, std::memory_order_seq_cst)) {
      return Step::start;
    }
    did_ = true;
    wake_all();
  }
  return Step::look_at_taken;
}

// What stands in a block is what a rank has made of the full round before it, and that result is not replaced.
GroupBoard::Step GroupBoard::look_at_taken() {
  if (seat(member()).took.load(std::memory_order_seq_cst) < memory_.block_of(round_) &&
      !defect(Defect::group_full_replaced)) {
    return Step::nothing;
  }
  return Step::look_at_model;
}

GroupBoard::Step GroupBoard::look_at_model() {
  if (seat(member()).model.load(std::memory_order_seq_cst) == 0) return Step::nothing;
  return next_member() ? Step::look_at_taken : Step::begin;
}

GroupBoard::Step GroupBoard::begin() {
  at_ = 0;
  auto& summer = memory_.summer(round_, group_.number);
  const NumberedWord mine(round_ + 1, static_cast<std::uint64_t>(rank_));
  if (defect(Defect::group_board_store_summer)) {
    summer.store(mine.bits(), std::memory_order_seq_cst);
  } else if (!summer.compare_exchange_strong(began_from_, mine.bits(), std::memory_order_seq_cst)) {
    return Step::look_at_summer;
  }
  did_ = true;
  summer_ = rank_;
  result_ = static_cast<std::uint64_t>(rank_) * GroupMemory::results_per_rank(memory_.shape());
  return Step::claim_result;
}

// ---- the sum begins ----

GroupBoard::Step GroupBoard::claim_result() {
  GroupMemory::Result& result = memory_.result(result_);
  std::uint32_t free = 0;
  const auto uses = static_cast<std::uint32_t>(group_.members.size()) + 1;  // one of each member, and the sum's own
  if (defect(Defect::group_board_one_result) && !memory_.shape().keep_own) {
    result.uses.fetch_add(uses, std::memory_order_seq_cst);
  } else if (!result.uses.compare_exchange_strong(free, uses, std::memory_order_seq_cst)) {
    result_ = (result_ + 1) % memory_.results();
    return Step::claim_result;
  }
  if (!std::exchange(result.touched, true)) memory_.touch_sum(result_);
  return memory_.shape().moves != nullptr ? Step::claim_seat : Step::read_model;
}

/// No rank that holds a claim waits for one of a lower seat. One that is lost while it holds one ends the job, of which
/// the engine hears between two steps.
GroupBoard::Step GroupBoard::claim_seat() {
  blocked_ = !seat(member()).claim();
  if (!blocked_) return Step::read_model;
  if (!interleaved_) std::this_thread::yield();
  return Step::claim_seat;
}

GroupBoard::Step GroupBoard::read_model() {
  model_ = NumberedWord(seat(member()).model.load(std::memory_order_seq_cst));
  return memory_.shape().moves != nullptr ? enter_model() : Step::pin_model;
}

GroupBoard::Step GroupBoard::pin_model() {
  if (!defect(Defect::group_board_no_pin)) {
    memory_.set(member(), static_cast<int>(model_.index())).pins.fetch_add(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  return Step::look_again;
}

// Between the look and the pin the rank may have published newer models, and may write to this one by now.
GroupBoard::Step GroupBoard::look_again() {
  const bool stands = seat(member()).model.load(std::memory_order_seq_cst) == model_.bits();
  if (!stands && !defect(Defect::group_board_no_second_look)) return Step::unpin_model;
  return enter_model();
}

GroupBoard::Step GroupBoard::enter_model() {
  pinned_[at_] = model_;
  rule_.joined(round_, member(), model_.number());
  if (!next_member()) return Step::open;
  return memory_.shape().moves != nullptr ? Step::claim_seat : Step::read_model;
}

GroupBoard::Step GroupBoard::unpin_model() {
  if (!defect(Defect::group_board_no_pin)) {
    memory_.set(member(), static_cast<int>(model_.index())).pins.fetch_sub(1, std::memory_order_seq_cst);
  }
  return Step::read_model;
}

/// Of the members' models as they are pinned.
RoundHeader GroupBoard::header() const {
  RoundHeader header(memory_.ranks());
  for (std::size_t i = 0; i < group_.members.size(); ++i) {
    memory_.enter_model(header, round_, group_.members[i], static_cast<int>(pinned_[i].index()));
  }
  return header;
}

GroupBoard::Step GroupBoard::open() {
  memory_.enter_result(result_, round_, static_cast<int>(group_.members.size()), header());
  for (std::size_t i = 0; i < group_.members.size(); ++i) {
    memory_.own(result_, group_.members[i]) = {pinned_[i].number(), static_cast<int>(pinned_[i].index())};
  }
  GroupMemory::Desk& desk = memory_.desk(rank_);
  desk.result = result_;
  desk.done.store(0, std::memory_order_relaxed);
  desk.open.store(true, std::memory_order_seq_cst);
  desk.pieces.store(NumberedWord(round_ + 1, 0).bits(), std::memory_order_seq_cst);
  if (memory_.num_pieces() >= kManyPieces && memory_.full(round_)) {
    memory_.words().sleepers.wake(memory_.ranks(), std::max(1, memory_.shape().helpers), ring_);
  }
  return Step::find_piece;
}

// ---- pieces ----

GroupBoard::Step GroupBoard::find_piece() {
  auto& pieces = memory_.desk(summer_).pieces;
  std::uint64_t bits = pieces.load(std::memory_order_seq_cst);
  const NumberedWord word(bits);
  if (word.number() != round_ + 1 || word.index() == memory_.num_pieces()) return Step::nothing;
  if (!pieces.compare_exchange_strong(bits, NumberedWord(word.number(), word.index() + 1).bits(),
                                      std::memory_order_seq_cst)) {
    return Step::find_piece;
  }
  piece_ = word.index();
  result_ = memory_.desk(summer_).result;  // the sum is not over before this piece is
  return Step::sum;
}

GroupBoard::Step GroupBoard::sum() {
  const GroupMemory::Piece piece = memory_.piece_at(piece_);
  const DataType type = memory_.shape().buckets[piece.bucket].type;
  sources_.clear();
  for (const int rank : group_.members) {
    const auto place = static_cast<std::uint64_t>(memory_.own(result_, rank).set);
    sources_.push_back(memory_.standing(rank, place, piece.bucket).data() + piece.offset);
  }
  auto& tree = trees_[sources_.size()];
  if (tree == nullptr) {
    tree = std::make_unique<Combination>(Combination::tree(static_cast<int>(sources_.size())));
  }
  const auto sum = memory_.sum(result_, piece.bucket).subspan(piece.offset, piece.bytes);
  combine(*tree, type, ReduceOp::sum, sum.data(), sources_, piece.bytes / size_of(type));
  if (const ModelMath* math = memory_.shape().moves) math->mean(type, sum, sum, static_cast<double>(sources_.size()));
  did_ = true;
  return Step::count_piece;
}

GroupBoard::Step GroupBoard::count_piece() {
  const std::uint64_t done = memory_.desk(summer_).done.fetch_add(1, std::memory_order_seq_cst) + 1;
  if (done != memory_.num_pieces()) return Step::find_piece;
  at_ = 0;
  const bool unpins = !memory_.shape().keep_own && memory_.shape().moves == nullptr;
  return unpins && !defect(Defect::group_board_no_pin) ? Step::unpin_source : first_receiver();
}

// ---- the sum is there ----

GroupBoard::Step GroupBoard::unpin_source() {
  memory_.set(member(), memory_.own(result_, member()).set).pins.fetch_sub(1, std::memory_order_seq_cst);
  return next_member() ? Step::unpin_source : first_receiver();
}

GroupBoard::Step GroupBoard::first_receiver() {
  at_ = 0;
  RoundHeader header(memory_.ranks());
  const auto bytes = memory_.header(result_).first(memory_.result(result_).header_bytes);
  STRETTO_CHECK(header.read(bytes, memory_.ranks()), "the header of round ", round_, " in ", bytes.size(), " bytes");
  if (memory_.full(round_) && header.drained.all()) {
    memory_.words().ended.store(round_ + 1, std::memory_order_seq_cst);
  }
  return memory_.shape().moves != nullptr ? Step::stand : Step::look_at_newest;
}

int GroupBoard::receiver() const {
  const auto mine = static_cast<std::size_t>(std::ranges::lower_bound(group_.members, rank_) - group_.members.begin());
  if (at_ + 1 == group_.members.size()) return rank_;
  return group_.members[at_ < mine ? at_ : at_ + 1];
}

GroupBoard::Step GroupBoard::next_receiver() {
  if (!next_member()) return Step::release;
  return memory_.shape().moves != nullptr ? Step::stand : Step::look_at_newest;
}

/// With GroupShape::moves, also where the receiver has the result of a later round: it has been moved by that already.
GroupBoard::Step GroupBoard::stand() {
  stood_ = memory_.stand(receiver(), result_);
  rule_.completed(round_, receiver(), result_);
  return Step::give_back;
}

GroupBoard::Step GroupBoard::give_back() {
  memory_.give_back(stood_);
  return Step::let_go;
}

GroupBoard::Step GroupBoard::let_go() {
  seat(receiver()).give_up();
  return Step::look_at_newest;
}

GroupBoard::Step GroupBoard::look_at_newest() {
  newest_ = NumberedWord(seat(receiver()).result.load(std::memory_order_seq_cst));
  if (newest_.number() <= round_) return Step::hand_over;
  return memory_.shape().moves != nullptr ? next_receiver() : Step::refuse;
}

GroupBoard::Step GroupBoard::hand_over() {
  std::uint64_t older = newest_.bits();
  if (!seat(receiver())
           .result.compare_exchange_strong(older, NumberedWord(round_ + 1, result_).bits(),
                                           std::memory_order_seq_cst)) {
    return Step::look_at_newest;
  }
  if (memory_.shape().moves != nullptr) return next_receiver();  // what stands uses the result
  rule_.completed(round_, receiver(), result_);
  if (newest_.number() == 0) return next_receiver();
  return memory_.shape().keep_own ? Step::release_kept : Step::release_older;
}

/// The older result keeps the receiver's model no more.
GroupBoard::Step GroupBoard::release_kept() {
  const GroupMemory::Own& own = memory_.own(newest_.index(), receiver());
  if (!defect(Defect::group_board_no_pin)) {
    memory_.set(receiver(), own.set).pins.fetch_sub(1, std::memory_order_seq_cst);
  }
  return Step::release_older;
}

GroupBoard::Step GroupBoard::release_older() {
  memory_.result(newest_.index()).uses.fetch_sub(1, std::memory_order_seq_cst);
  return next_receiver();
}

/// The receiver has a newer result: this one does not become its newest, and keeps its model no more.
GroupBoard::Step GroupBoard::refuse() {
  if (memory_.shape().keep_own && !defect(Defect::group_board_no_pin)) {
    memory_.set(receiver(), memory_.own(result_, receiver()).set).pins.fetch_sub(1, std::memory_order_seq_cst);
  }
  memory_.result(result_).uses.fetch_sub(1, std::memory_order_seq_cst);
  return next_receiver();
}

GroupBoard::Step GroupBoard::release() {
  memory_.result(result_).uses.fetch_sub(1, std::memory_order_seq_cst);
  return Step::close;
}

/// The rank that has begun the sum, which may have a newer result, goes on only now: its desk is used again.
GroupBoard::Step GroupBoard::close() {
  memory_.desk(summer_).open.store(false, std::memory_order_seq_cst);
  if (memory_.full(round_)) {
    wake_all();
  } else {
    wake_members();
  }
  return Step::look;
}

}  // namespace stretto
