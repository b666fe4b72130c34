#include "stretto/collective/rounds/group_board_rounds.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "stretto/base/cores.h"
#include "stretto/base/error.h"

namespace stretto {

GroupBoardRounds::GroupBoardRounds(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options)
    : StandingRounds(engine, std::move(buckets), options, text("on a board by ", options.piece_bytes, " B"),
                     kControlChannel),
      memory_(take_memory(), shape(), engine.size()),
      seat_(memory_, engine.rank()),
      board_(
          memory_, engine.rank(), *this, [&engine](int seat) { engine.arena()->ring(seat); },
          engine.arena()->interleaved()) {
  for (int set = 0; set < memory_.sets(); ++set) {
    std::vector<std::span<std::byte>> parts;
    for (std::size_t i = 0; i < buckets_.size(); ++i) parts.push_back(memory_.model(engine.rank(), set, i));
    models_.push_back(std::make_unique<Contribution>(std::move(parts), set));
  }
  enroll(engine.add(*this, description_));
}

GroupShape GroupBoardRounds::shape() const {
  return {.buckets = buckets_,
          .full_every = options_.full_every,
          .groups = groups_.count(),
          .quorum = options_.quorum,
          .keep_own = options_.keep_own,
          .piece_bytes = options_.piece_bytes,
          .helpers = std::min(num_cores(), engine_.size()) - 1};
}

std::span<std::byte> GroupBoardRounds::take_memory() {
  const std::uint64_t bytes = GroupMemory::bytes_needed(shape(), engine_.size());
  const auto memory = failure_.take_shared(bytes, description_);
  if (memory) return *memory;
  if (memory.error().code == Errc::unavailable) throw Failure(memory.error());
  failure_.fail(memory.error(), false);
  own_memory_ = Block(bytes);
  std::memset(own_memory_.data(), 0, bytes);
  return {own_memory_.data(), bytes};
}

// ---- the application's thread ----

bool GroupBoardRounds::may_acquire() {
  if (!acquired_) acquired_ = seat_.acquire();
  return acquired_.has_value();
}

Contribution& GroupBoardRounds::acquire() {
  // Each of the sums that read this rank's sets is made by another rank, which waits for nothing meanwhile. After a
  // failure nobody reads what is written.
  while (!may_acquire() && !failure_.failed()) {
    STRETTO_CHECK(!engine_.arena()->interleaved(), "none of ", models_.size(), " models is free to write to");
    std::this_thread::yield();
  }
  const int set = acquired_ ? *std::exchange(acquired_, std::nullopt) : 0;
  return *models_[static_cast<std::size_t>(set)];
}

void GroupBoardRounds::publish(Contribution& model, Round ticket) {
  seat_.publish(model.index(), ticket, model.facts);
  if (versions() == 1) board_.wake_all();
}

void GroupBoardRounds::look_at(std::uint64_t result, int rank, View& view) const {
  const GroupMemory::Result& record = memory_.result(result);
  const GroupMemory::Own& own = memory_.own(result, rank);
  view.header = RoundHeader(engine_.size());
  const bool whole = view.header.read(memory_.header(result).first(record.header_bytes), engine_.size());
  STRETTO_CHECK(whole, "the header of round ", record.round, " in ", record.header_bytes, " bytes");
  view.buckets.clear();
  for (std::size_t i = 0; i < buckets_.size(); ++i) view.buckets.emplace_back(memory_.sum(result, i));
  view.sum = {.round = record.round,
              .header = &view.header,
              .members = record.members,
              .own_version = own.version,
              .own = options_.keep_own ? models_[static_cast<std::size_t>(own.set)].get() : nullptr,
              .buckets = view.buckets};
}

std::optional<StandingSum> GroupBoardRounds::read(Round from) {
  const std::optional<std::uint64_t> result = seat_.read(from);
  if (!result) return std::nullopt;
  look_at(*result, engine_.rank(), reading_);
  return reading_.sum;
}

void GroupBoardRounds::release(Round round) {
  seat_.release();
  took_.store(round + 1, std::memory_order_relaxed);
  seat_.took(round + 1);
  if (full(round)) board_.wake_all();  // the next block may begin
}

/// A rank whose engine may be handing results over waits on: at a full round all results before it are there.
Round GroupBoardRounds::complete() const {
  const Round newest = board_.newest();
  const Round waits = waits_at();
  return newest >= waits && waits > 0 && board_.busy() ? waits - 1 : newest;
}

void GroupBoardRounds::set_arrived(Round round) {
  waits_at_.store(round + 1, std::memory_order_release);
  seat_.arrive(round);
  // Ranks without batches come when all others have.
  if (full(round) && board_.all_have_come(round)) board_.wake_all();
}

void GroupBoardRounds::set_drained() {
  drained_.store(true, std::memory_order_release);
  seat_.drain();
  board_.wake_all();  // it may be the one that a quorum, or a rank without batches, waits for
}

Round GroupBoardRounds::next_full() const {
  const Round took = took_.load(std::memory_order_relaxed);
  return took + options_.full_every - 1 - took % options_.full_every;
}

std::optional<Round> GroupBoardRounds::full_to_come() const {
  const Round round = next_full();
  if (board_.busy() || stopped() || !board_.all_have_come(round)) return std::nullopt;
  return round;
}

Round GroupBoardRounds::open() const {
  return drained_.load(std::memory_order_acquire) ? next_full() : complete();
}

bool GroupBoardRounds::stopped() const {
  const std::uint64_t ended = memory_.words().ended.load(std::memory_order_seq_cst);
  return ended != 0 && board_.newest() >= ended;
}

ProtocolState GroupBoardRounds::state() const {
  const Round complete = board_.newest();
  return {.ticket = ticket_.load(std::memory_order_relaxed),
          .handed = took_.load(std::memory_order_relaxed),
          .complete = complete,
          .joined = complete,
          .activated = complete,
          .waiting = waits_at() > complete,
          .drained = drained_.load(std::memory_order_acquire),
          .full = full(complete)};
}

// ---- the driving thread ----

void GroupBoardRounds::left(int peer, const Error& reason) {
  const bool its = memory_.seat(peer).drained.load(std::memory_order_seq_cst);
  hear_of_leaving(peer, reason, its && drained_.load(std::memory_order_acquire));
}

/// Returns whether there is more to do at the board.
bool GroupBoardRounds::poll(TimePoint) {
  if (!failure_.poll()) return false;
  query().poll();
  const Round waits = waits_at();
  if (waits > 0 && (board_.newest() < waits || board_.busy()) && board_.step(waits - 1)) return true;
  const bool sleeps =
      board_.newest() < waits || board_.begun() || (drained_.load(std::memory_order_acquire) && !stopped());
  if (!sleeps) {
    board_.leave();
    return false;
  }
  // From now on a rank that hands over a result wakes this one. If one has just before, no rank does: so look once more
  // before sleeping.
  return board_.go_in();
}

GroupRule::Group GroupBoardRounds::group(Round round) {
  if (group_round_ != round) {
    group_round_ = round;
    group_members_ = members(round, full(round));
    group_number_ = full(round) ? 0 : groups_.numbers(round)[static_cast<std::size_t>(engine_.rank())];
  }
  return {.number = group_number_, .members = group_members_};
}

void GroupBoardRounds::joined(Round round, int rank, std::uint64_t version) {
  if (observer_ != nullptr) observer_->joined(round, rank, version);
}

void GroupBoardRounds::completed(Round, int rank, std::uint64_t result) {
  if (observer_ == nullptr) return;
  View view;
  look_at(result, rank, view);
  observer_->completed(rank, view.sum);
}

}  // namespace stretto
