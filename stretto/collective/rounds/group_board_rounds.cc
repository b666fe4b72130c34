#include "stretto/collective/rounds/group_board_rounds.h"

#include <utility>

#include "stretto/base/error.h"

namespace stretto {

GroupBoardRounds::GroupBoardRounds(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options)
    : SeatedRounds(engine, std::move(buckets), options, text("on a board by ", options.piece_bytes, " B"),
                   kControlChannel, 0),
      board_(
          memory_, engine.rank(), *this, [&engine](int seat) { engine.host().arena->ring(seat); },
          engine.host().arena->interleaved()) {
  enroll_client();
}

// ---- the application's thread ----

/// A rank whose engine may be handing results over waits on: at a full round all results before it are there.
Round GroupBoardRounds::complete() const {
  const Round there = newest();
  const Round waits = waits_at();
  return there >= waits && waits > 0 && board_.busy() ? waits - 1 : there;
}

void GroupBoardRounds::set_arrived(Round round) {
  SeatedRounds::set_arrived(round);
  // Ranks without batches come when all others have.
  if (full(round) && board_.all_have_come(round)) board_.wake_all();
}

Round GroupBoardRounds::next_full() const {
  const Round used = took();
  return used + options_.full_every - 1 - used % options_.full_every;
}

std::optional<Round> GroupBoardRounds::full_to_come() const {
  const Round round = next_full();
  if (board_.busy() || stopped() || !board_.all_have_come(round)) return std::nullopt;
  return round;
}

Round GroupBoardRounds::open() const {
  return drained() ? next_full() : complete();
}

ProtocolState GroupBoardRounds::state() const {
  const Round complete = newest();
  return {.ticket = ticket_.load(std::memory_order_relaxed),
          .handed = took(),
          .complete = complete,
          .joined = complete,
          .activated = complete,
          .waiting = waits_at() > complete,
          .drained = drained(),
          .full = full(complete)};
}

// ---- the driving thread ----

/// Returns whether there is more to do at the board.
bool GroupBoardRounds::poll(TimePoint) {
  if (!poll_requests()) return false;
  const Round waits = waits_at();
  if (waits > 0 && (newest() < waits || board_.busy()) && board_.step(waits - 1)) return true;
  const bool sleeps = newest() < waits || board_.begun() || (drained() && !stopped()) || unsettled();
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
