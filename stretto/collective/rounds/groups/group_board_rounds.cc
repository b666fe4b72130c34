#include "stretto/collective/rounds/groups/group_board_rounds.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/machine/cores.h"

namespace stretto {

SeatedRounds::SeatedRounds(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options,
                           const std::string& how, std::uint16_t ask, int seats)
    : StandingRounds(engine, std::move(buckets), options, how, ask),
      seating_(engine.members(), engine.rank(), seats),
      board_memory_(failure_, seating_, description_,
                    [shape = shape()](int ranks) { return GroupMemory::bytes_needed(shape, ranks); }),
      memory_(board_memory_.bytes(), shape(), seating_.seats()),
      seat_(memory_, seating_.seat()) {
  for (int set = 0; set < memory_.sets(); ++set) {
    std::vector<std::span<std::byte>> parts;
    for (std::size_t i = 0; i < buckets_.size(); ++i) parts.push_back(memory_.model(seating_.seat(), set, i));
    models_.push_back(std::make_unique<Contribution>(std::move(parts), set));
  }
}

GroupShape SeatedRounds::shape() const {
  const bool several = seating_.boards() > 1;
  return {.buckets = buckets_,
          .full_every = options_.full_every,
          .groups = groups_.count(),
          .quorum = options_.quorum,
          .keep_own = options_.keep_own,
          .moves = options_.moves,
          .piece_bytes = options_.piece_bytes,
          .helpers = std::min(num_cores(), static_cast<int>(engine_.host().members.size())) - 1,
          .job_ranks = several ? seating_.ranks() : 0,
          .ranks = several ? seating_.here() : std::vector<int>()};
}

bool SeatedRounds::may_acquire() {
  if (!acquired_) acquired_ = seat_.acquire();
  return acquired_.has_value();
}

Contribution& SeatedRounds::acquire() {
  // Each of the sums that read this rank's sets is made by another rank, which waits for nothing meanwhile. After a
  // failure nobody reads what is written. A rank that is lost makes its sum no more: where members change the model is
  // written to memory that none of the others sees.
  while (!may_acquire() && !failure_.failed()) {
    if (engine_.frozen()) {
      unseen_ = std::make_unique<Contribution>(buckets_, memory_.sets());
      return *unseen_;
    }
    STRETTO_CHECK(!engine_.host().arena->interleaved(), "none of ", models_.size(), " models is free to write to");
    std::this_thread::yield();
  }
  const int set = acquired_ ? *std::exchange(acquired_, std::nullopt) : 0;
  return *models_[static_cast<std::size_t>(set)];
}

void SeatedRounds::publish(Contribution& model, Round ticket) {
  if (&model == unseen_.get()) return;
  seat_.publish(model.index(), ticket, model.facts);
  if (versions() == 1) stands_now();
}

Round SeatedRounds::newest() const {
  return NumberedWord(memory_.seat(seating_.seat()).result.load(std::memory_order_seq_cst)).number();
}

void SeatedRounds::look_at(std::uint64_t result, int seat, View& view) const {
  const GroupMemory::Result& record = memory_.result(result);
  const GroupMemory::Own& own = memory_.own(result, seat);
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

std::optional<StandingSum> SeatedRounds::read(Round from) {
  const std::optional<std::uint64_t> result = seat_.read(from);
  if (!result) return std::nullopt;
  look_at(*result, seating_.seat(), reading_);
  return reading_.sum;
}

std::vector<std::span<const std::byte>> SeatedRounds::buckets_at(std::uint64_t place) const {
  std::vector<std::span<const std::byte>> buckets;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    buckets.emplace_back(memory_.standing(seating_.seat(), place, i));
  }
  return buckets;
}

bool SeatedRounds::settle(Contribution& model, Round ticket) {
  const bool claimed = seat_.claim();
  unsettled_.store(!claimed, std::memory_order_release);
  if (!claimed) return false;
  if (seat_.stands() != seat_.base()) put_on_top(model, buckets_at(seat_.stands()), buckets_at(seat_.base()));
  seat_.settle(model.index(), ticket, model.facts);
  if (observer_ != nullptr) observer_->settled();
  return true;
}

std::optional<StandingSum> SeatedRounds::follow(bool full) {
  const std::optional<std::uint64_t> place = seat_.follow();
  if (!place && !full) return std::nullopt;
  if (full) {
    // What stands after a full round is its result until this rank has taken it.
    look_at(NumberedWord(memory_.seat(seating_.seat()).result.load(std::memory_order_seq_cst)).index(), seating_.seat(),
            reading_);
    seat_.counted();
  }
  if (place) reading_.buckets = buckets_at(*place);
  return StandingSum{.header = full ? &reading_.header : nullptr, .members = 1, .buckets = reading_.buckets};
}

void SeatedRounds::release(Round round) {
  if (options_.moves == nullptr) seat_.release();
  took_.store(round + 1, std::memory_order_relaxed);
  seat_.took(round + 1);
  if (full(round)) stands_now();  // the next block may begin
}

void SeatedRounds::set_arrived(Round round) {
  waits_at_.store(round + 1, std::memory_order_release);
  seat_.arrive(round);
}

void SeatedRounds::set_drained() {
  drained_.store(true, std::memory_order_release);
  seat_.drain();
  stands_now();  // it may be the one that a quorum, or a rank without batches, waits for
}

bool SeatedRounds::stopped() const {
  const std::uint64_t ended = memory_.words().ended.load(std::memory_order_seq_cst);
  return ended != 0 && newest() >= ended;
}

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
