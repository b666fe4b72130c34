#include "stretto/ordering/runtime/fused_sequence.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "stretto/collective/schedules/round_schedules.h"

namespace stretto {
namespace {

/// Round: of the buffer; note: hash of the sender's sequence up to it; head: its tensors, a line each, cut at the end.
constexpr std::uint16_t kComposition = kControlChannel;

/// Schedules kept for shapes that come again. More than a step has buffers.
constexpr std::size_t kMaxSchedules = 256;
/// Buffers whose composition is kept: more than a member can be behind another.
constexpr std::size_t kMaxCompositions = 64;

constexpr BufferId kMine = contribution_buffer(0);
constexpr BufferId kSum = sum_buffer(0, 1);

}  // namespace

FusedSequence::FusedSequence(Engine& engine, CollectiveFailure& failure, ProcessSet set, const std::string& alike)
    : engine_(engine), failure_(failure), set_(std::move(set)) {
  const Engine::Pause pause(engine);
  id_ = engine.add(*this, text("fused buffers of ", set_.to_text(), alike));
}

FusedSequence::~FusedSequence() {
  engine_.remove(id_);
}

void FusedSequence::start(FusedRound round) {
  STRETTO_CHECK(set_.has_this_rank(), "rank ", engine_.rank(), " is not in set ", set_.number());
  STRETTO_CHECK(round.number == begun_, "buffer ", round.number, " of set ", set_.number(), " after ", begun_);
  const Schedule& schedule = schedule_for({round.type, round.op, round.count});
  compositions_.push_back({round.number, round.sequence_hash, std::move(round.composition)});
  if (compositions_.size() > kMaxCompositions) compositions_.pop_front();
  flights_.push_back({{.number = round.number}, round.sequence_hash, round.count, &schedule, false});
  ++begun_;
  engine_.open(id_, round.number, schedule, round.sequence_hash);
  STRETTO_CHECK(round.parts.size() <= 1, "buffer ", round.number, " in ", round.parts.size(), " parts");
  const FusedPart whole = round.parts.empty() ? FusedPart{} : round.parts.front();
  engine_.bind(id_, round.number, kMine, {const_cast<std::byte*>(whole.mine), round.brings});
  engine_.bind(id_, round.number, kSum, {round.sum != nullptr ? round.sum : whole.sum, false});
  engine_.header(id_, round.number, kMine) = std::move(round.header);
  contributed(round.number);
}

std::optional<FusedResult> FusedSequence::take_result() {
  if (flights_.empty() || !flights_.front().over) return std::nullopt;
  FusedResult result = std::move(flights_.front().result);
  flights_.pop_front();
  return result;
}

bool FusedSequence::lacks(int rank) const {
  return std::ranges::any_of(
      flights_, [&](const Flight& flight) { return !flight.over && engine_.lacks(id_, flight.result.number, rank); });
}

// ---- schedules ----

const Schedule& FusedSequence::schedule_for(const Shape& shape) {
  const auto [type, op, count] = shape;
  KnownSchedule& known = schedules_[shape];
  known.last_used = begun_;
  if (known.schedule == nullptr) {
    const BucketSpec bucket{type, count};
    const Schedule alone = partial_allreduce_schedule(set_.me(), set_.size(), std::span(&bucket, 1), op,
                                                      SumOrder::fixed, Activation::none());
    known.schedule = std::make_unique<Schedule>(alone.among(set_.members(), engine_.size()));
    if (schedules_.size() > kMaxSchedules) forget_one_schedule();
  }
  return *known.schedule;
}

/// The one that has not been used for the longest time.
void FusedSequence::forget_one_schedule() {
  auto oldest = schedules_.end();
  for (auto it = schedules_.begin(); it != schedules_.end(); ++it) {
    const bool in_use = std::ranges::any_of(
        flights_, [&](const Flight& flight) { return !flight.over && flight.schedule == it->second.schedule.get(); });
    const bool older = oldest == schedules_.end() || it->second.last_used < oldest->second.last_used;
    if (!in_use && it->second.last_used < begun_ && older) oldest = it;
  }
  if (oldest == schedules_.end()) return;
  engine_.forget(id_, *oldest->second.schedule);
  schedules_.erase(oldest);
}

// ---- rounds ----

FusedSequence::Flight* FusedSequence::flight(Round round) {
  const SequenceNumber oldest = begun_ - flights_.size();
  return round < oldest || round >= begun_ ? nullptr : &flights_[round - oldest];
}

bool FusedSequence::admit(Round round, const Envelope& envelope) {
  if (failure_.failed()) return false;
  if (round >= begun_) return true;  // kept until the buffer is begun here
  const Flight* here = flight(round);
  if (here == nullptr || here->over) return false;
  if (envelope.note == here->hash) return true;
  // Whose message it is the envelope does not say: all members are told.
  for (const int rank : set_.members()) {
    if (rank != engine_.rank()) send_compositions(rank, round);
  }
  return false;
}

void FusedSequence::completed(Round round) {
  FusedResult& result = flight(round)->result;
  // A message of no elements does not say whether it stands for something.
  result.present = flight(round)->count > 0 && engine_.buffer(id_, round, kSum).present;
  result.header = engine_.header(id_, round, kSum);
}

void FusedSequence::retired(Round round) {
  flight(round)->over = true;
}

void FusedSequence::broken(const Error& reason) {
  failure_.fail({reason.code, text("fused buffers of set ", set_.number(), ": ", reason.message), reason.rank}, true);
}

// ---- sequences that differ ----

/// Once a member: the first buffer that differs is among them, or lies too far back to be told.
void FusedSequence::send_compositions(int peer, Round up_to) {
  if (!told_.insert(peer).second) return;
  for (const Composition& composition : compositions_) {
    if (composition.number > up_to) break;
    const std::string_view tensors = cut_composition(composition.tensors, kMaxHeadBytes);
    engine_.send_control(id_, peer, kComposition, composition.number, composition.hash,
                         std::as_bytes(std::span(tensors)));
  }
}

void FusedSequence::control(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  if (envelope.channel != kComposition) return broken(CollectiveFailure::unknown(peer, envelope));
  const auto mine = std::ranges::find(compositions_, envelope.round, &Composition::number);
  if (mine == compositions_.end() || mine->hash == envelope.note) return;
  const std::string_view tensors = cut_composition(mine->tensors, kMaxHeadBytes);
  const std::string_view theirs(reinterpret_cast<const char*>(head.data()), head.size());
  broken({Errc::bad_input,
          text("buffer ", envelope.round,
               " is not the same on every rank: ", composition_difference(peer, theirs, engine_.rank(), tensors)),
          peer});
}

}  // namespace stretto
