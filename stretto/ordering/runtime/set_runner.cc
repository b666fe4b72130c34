#include "stretto/ordering/runtime/set_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "stretto/kernel/combine.h"

namespace stretto {
namespace {

constexpr std::size_t kMostPutIntoWords = 1024;  // more buffers than a step has

/// Parts that lie one behind the other in memory become one, which needs no copy. `sums`: those of the parts are used.
void join_neighbours(std::vector<FusedPart>& parts, bool sums) {
  const auto joins = [sums](const FusedPart& a, const FusedPart& b) {
    const bool mine = a.mine == nullptr ? b.mine == nullptr : a.mine + a.bytes == b.mine;
    return mine && (!sums || a.sum + a.bytes == b.sum);
  };
  std::size_t last = 0;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (joins(parts[last], parts[i])) {
      parts[last].bytes += parts[i].bytes;
    } else {
      parts[++last] = parts[i];
    }
  }
  if (!parts.empty()) parts.resize(last + 1);
}

std::string in_words(const TensorDescription& tensor) {
  return text(tensor.name, " (", tensor.count, ' ', name_of(tensor.type), ", ", name_of(tensor.op), ')');
}

}  // namespace

SetRunner::SetRunner(Engine& engine, CollectiveFailure& failure, OrderingCounters& counters, TensorTimeline& timeline,
                     const OrderingOptions& options, ProcessSet set, const std::string& alike,
                     std::unique_ptr<FusedWay> buffers, std::unique_ptr<Orderer> orderer)
    : engine_(engine),
      failure_(failure),
      counters_(counters),
      options_(options),
      set_(std::move(set)),
      orderer_(std::move(orderer)),
      agreement_(engine, failure, set_.members(), text("agreements of ", set_.to_text(), alike)),
      watch_(agreement_, set_, options.stall_warning, options.stall_abort),
      buffers_(std::move(buffers)),
      timeline_(engine.clock(), timeline, set_.number()) {
  if (buffers_ != nullptr) buffers_->on_contributed([this](SequenceNumber number) { timeline_.fused(number); });
}

// ---- what the application has done ----

SetRunner::Place& SetRunner::place(TensorId id) {
  if (id >= places_.size()) places_.resize(id + std::size_t{1});
  return places_[id];
}

TensorId SetRunner::id_of(TensorSlot& slot) {
  if (!slot.id) slot.id = orderer_->tensor(slot.description);
  return *slot.id;
}

Result<void> SetRunner::take(const OrderingEvent& event) {
  using Kind = OrderingEvent::Kind;
  something_new_ = true;
  switch (event.kind) {
    case Kind::begin_step: account_ = {event.step, event.account}; return {};
    case Kind::executed: orderer_->executed(event.step, *event.graph); return {};
    case Kind::step_ended: orderer_->step_ended(event.step); return {};
    case Kind::drained: orderer_->drained(); return {};
    case Kind::destination: {
      Place& to = place(id_of(*event.slot));
      to.slot = event.slot;
      to.out = event.out;
      to.shared = event.shared;
      return {};
    }
    case Kind::submitted: {
      const TensorId id = id_of(*event.slot);
      Place& from = place(id);
      from.slot = event.slot;
      from.in = event.in;
      from.out = event.out;
      from.submitted_at = event.at;
      timeline_.taken(id, event.at);
      return orderer_->submitted(id, event.step);
    }
    case Kind::blocked: {
      std::optional<TensorId> on;
      if (event.slot != nullptr) on = id_of(*event.slot);
      orderer_->blocked(on, event.at);
      return {};
    }
  }
  return {};
}

// ---- what the orderer decides ----

bool SetRunner::advance(TimePoint now, StepNumber handed) {
  if (ended_) {  // but a rank that has drained long ago may still be at an earlier step
    settle(handed);
    return false;
  }
  bool did = take_controls();
  did |= take_buffers();
  settle(handed);
  did |= begin_buffers(now);
  something_new_ |= did;
  bool due = now >= ask_at_;
  while (!ended_ && !failure_.failed() && (due || (something_new_ && !sleeps_))) {
    due = false;
    if (sleeps_) note_waking(now);
    something_new_ = false;
    sleeps_ = false;
    for (bool more = true; more;) {
      more = ask(now);
      did |= take_controls();
      did |= more;
    }
    something_new_ |= begin_buffers(now);
    something_new_ |= take_controls();
    settle(handed);
    did |= sleeps_ || something_new_;
  }
  return did;
}

/// A sleep has ended, and with it a cycle.
void SetRunner::note_waking(TimePoint now) {
  counters_.count([&](OrderingStatistics& all) { all.note_oversleep(now - ask_at_); });
  begin_cycle(now);
  slept_ = true;
}

void SetRunner::begin_cycle(TimePoint now) {
  if (cycle_) counters_.count([&](OrderingStatistics& all) { all.note_cycle(now - *cycle_); });
  cycle_ = now;
}

/// Begins a control collective: the numbers of the orderer are those of the agreement.
void SetRunner::begin(OrdererAction action) {
  using Kind = OrdererAction::Kind;
  STRETTO_CHECK(action.control == agreement_.traffic().begun, "control ", action.control, " of set ", set_.number(),
                " after ", agreement_.traffic().begun);
  switch (action.kind) {
    case Kind::sync: return agreement_.reduce(std::move(action.words), ReduceOp::bit_and);
    case Kind::gather: return agreement_.gather(action.bytes);
    case Kind::broadcast: return agreement_.broadcast(action.bytes);
    case Kind::minimum:
      minima_.push_back(action.control);
      return agreement_.reduce({static_cast<std::uint64_t>(action.nap.count())}, ReduceOp::min);
    default: STRETTO_CHECK(false, "no control collective: ", static_cast<int>(action.kind));
  }
}

/// Asks once. Returns whether to ask again at once.
bool SetRunner::ask(TimePoint now) {
  using Kind = OrdererAction::Kind;
  OrdererAction action = orderer_->next(now);
  switch (action.kind) {
    case Kind::sync:
      counters_.count([&](OrderingStatistics& all) { all.note_arrival(now); });
      if (!std::exchange(slept_, false)) begin_cycle(now);  // the last cycle has left no time to sleep
      begin(std::move(action));
      return true;
    case Kind::gather:
    case Kind::broadcast:
    case Kind::minimum: begin(std::move(action)); return true;
    case Kind::tell: agreement_.tell(action.to, action.bytes); return true;
    case Kind::issue: waiting_.push_back(std::move(action.buffer)); return true;
    case Kind::sleep:
      counters_.count([](OrderingStatistics& all) { ++all.cycles; });
      sleeps_ = true;
      ask_at_ = action.until;
      return false;
    case Kind::wait: ask_at_ = action.until; return false;
    case Kind::fail:
      failure_.fail(action.error.value_or(Error{Errc::aborted, "the order of tensors cannot be agreed on"}), true);
      return false;
    case Kind::end:
      ended_ = true;
      ask_at_ = TimePoint::never();
      return false;
  }
  return false;
}

/// Returns whether there was one.
bool SetRunner::take_controls() {
  bool any = false;
  while (auto outcome = agreement_.take()) {
    ControlResult result{outcome->number, std::move(outcome->words), std::move(outcome->gathered),
                         std::move(outcome->bytes)};
    if (!minima_.empty() && minima_.front() == result.control) {
      minima_.pop_front();
      result.nap = Duration(static_cast<std::int64_t>(std::exchange(result.words, {}).front()));
    }
    orderer_->control(result);
    any = true;
  }
  while (const auto told = agreement_.take_told()) {
    const Result<void> taken = orderer_->told(told->member, told->bytes);
    if (!taken) failure_.fail(taken.error(), true);
    any = true;
  }
  const Agreement::Traffic now = agreement_.traffic();
  if (any || now.messages != counted_.messages) {
    counters_.count([&](OrderingStatistics& all) {
      all.controls += now.begun - counted_.begun;
      all.control_messages += now.messages - counted_.messages;
      all.control_bytes += now.bytes - counted_.bytes;
    });
    counted_ = now;
  }
  return any;
}

// ---- fused buffers ----

Block SetRunner::take_block(std::uint64_t bytes) {
  Block block = pool_.take(bytes);
  memory_bytes_ += block.capacity();
  return block;
}

void SetRunner::give_back(Flight& flight) {
  for (Block* block : {&flight.mine, &flight.sum}) {
    memory_bytes_ -= block->capacity();
    pool_.give_back(std::exchange(*block, Block{}));
  }
}

/// Begins those for which there is room. Returns whether there were any.
bool SetRunner::begin_buffers(TimePoint now) {
  bool any = false;
  while (!waiting_.empty() && static_cast<int>(flying_.size()) < options_.in_flight) {
    FusedBuffer next = std::move(waiting_.front());
    waiting_.pop_front();
    begin(std::move(next), now);
    any = true;
  }
  return any;
}

/// The first buffer of a step carries this rank's account of it; each one says who has drained, and who leaves the
/// plan: a rank that leaves counts as `stale`, which no rank of a step that all wait for is otherwise.
RoundHeader SetRunner::header_for(const FusedBuffer& buffer) {
  RoundHeader header(engine_.size());
  if (buffer.step >= next_header_) {
    next_header_ = buffer.step + 1;
    if (account_ && account_->first == buffer.step) header = *account_->second;
  }
  if (buffer.changed) {
    header.fresh.erase(engine_.rank());
    header.stale.insert(engine_.rank());
  }
  if (buffer.drained) header.drained.insert(engine_.rank());
  if (engine_.size() > RoundHeader::kMaxNamedRanks) header.forget_names();
  return header;
}

void SetRunner::begin(FusedBuffer buffer, TimePoint now) {
  timeline_.begun(buffer, *orderer_);
  Flight& flight = flying_.emplace_back();
  FusedRound round{.number = buffer.number, .sequence_hash = buffer.sequence_hash, .header = header_for(buffer)};
  Duration negotiation{0};
  std::uint64_t brought = 0;
  BufferTimes times{.set = set_.number(), .number = buffer.number, .begun = now};
  // Sums go straight to where the application finds them, unless that would overwrite what they are summed from: they
  // may be thrown away, and come again.
  flight.into_place = !buffer.tensors.empty();
  round.parts.reserve(buffer.tensors.size());
  times.submitted.reserve(buffer.tensors.size());
  bool shares = !buffer.tensors.empty();  // the sums, where each follows upon the one before it
  for (std::size_t i = 0; i < buffer.tensors.size(); ++i) {
    const TensorDescription& tensor = orderer_->description(buffer.tensors[i]);
    const Place& at = place(buffer.tensors[i]);
    round.type = tensor.type;
    round.op = tensor.op;
    round.count += tensor.count;
    round.parts.push_back({brings(buffer, i) ? at.in : nullptr, at.out, tensor.bytes()});
    flight.into_place &= brings(buffer, i) && at.out != at.in;
    if (i == 0) round.shared_sum = at.shared;
    shares &= brings(buffer, i) && at.shared != nullptr && at.shared == round.shared_sum + flight.bytes;
    flight.bytes += tensor.bytes();
    times.submitted.push_back(brings(buffer, i) ? at.submitted_at : TimePoint::never());
    if (!brings(buffer, i)) continue;
    ++brought;
    negotiation += now - at.submitted_at;
  }
  if (!shares) round.shared_sum = nullptr;
  round.brings = brought > 0;
  round.composition = composition(buffer.tensors);
  join_neighbours(round.parts, flight.into_place);
  if (round.parts.size() > 1 && !buffers_->takes_parts()) {
    flight.into_place = false;
    if (round.brings) flight.mine = fused(round);
    round.parts = {{flight.mine.data(), nullptr, flight.bytes}};
  }
  if (!flight.into_place) {
    flight.sum = take_block(std::max<std::uint64_t>(1, flight.bytes));
    round.sum = flight.sum.data();
  }
  counters_.count([&](OrderingStatistics& all) {
    ++all.buffers;
    all.buffer_bytes += flight.bytes;
    all.tensors += brought;
    all.negotiation += negotiation;
    if (!times.submitted.empty()) all.note_buffer(std::move(times));
  });
  flight.buffer = std::move(buffer);
  buffers_->start(std::move(round));
}

/// FusedRound::composition. By a plan the same buffers come in every step.
std::shared_ptr<const std::string> SetRunner::composition(const std::vector<TensorId>& tensors) {
  if (compositions_.size() > kMostPutIntoWords) compositions_.clear();
  std::shared_ptr<const std::string>& known = compositions_[tensors];
  if (known == nullptr) {
    std::string words;
    for (const TensorId id : tensors) words += in_words(orderer_->description(id)) + '\n';
    known = std::make_shared<const std::string>(std::move(words));
  }
  return known;
}

/// The parts, one behind the other.
Block SetRunner::fused(const FusedRound& round) {
  Block block = take_block(std::max<std::uint64_t>(1, round.count * size_of(round.type)));
  std::byte* to = block.data();
  for (const FusedPart& part : round.parts) {
    if (part.mine == nullptr) {
      fill_neutral(round.type, round.op, to, part.bytes / size_of(round.type));
    } else if (part.bytes > 0) {
      std::memcpy(to, part.mine, part.bytes);
    }
    to += part.bytes;
  }
  return block;
}

/// Returns whether there was one.
bool SetRunner::take_buffers() {
  bool any = buffers_->step();
  while (auto result = buffers_->take_result()) {
    any = true;
    Flight flight = std::move(flying_.front());
    flying_.pop_front();
    flight.present = result->present;
    flight.shared = result->shared;
    RoundHeader& header = result->header;
    const BufferHeader said{header.num_stale() > 0, header.drained.count() == set_.size()};
    header.fresh |= header.stale;
    header.stale.clear();
    header.unnamed.fresh += std::exchange(header.unnamed.stale, 0);
    auto& step = steps_[flight.buffer.step];
    if (step.header.ranks() == 0) step.header = std::move(header);
    landed_.emplace(result->number, std::move(flight));
    orderer_->completed(result->number, said);
  }
  return any;
}

/// Hands out the sums that have become valid, in order, and drops those that have become void.
void SetRunner::settle(StepNumber handed) {
  for (const BufferOutcome& outcome : orderer_->take_outcomes()) {
    auto landed = landed_.extract(outcome.number);
    STRETTO_CHECK(!landed.empty(), "buffer ", outcome.number, " of set ", set_.number(), " has no sum");
    if (outcome.valid) {
      held_.push_back(std::move(landed.mapped()));
    } else {
      give_back(landed.mapped());
      timeline_.done(outcome.number, false);
      counters_.count([](OrderingStatistics& all) { ++all.void_buffers; });
    }
  }
  if (const std::uint64_t deviations = orderer_->deviations(); deviations != counted_deviations_) {
    counters_.count([&](OrderingStatistics& all) { all.deviations += deviations - counted_deviations_; });
    counted_deviations_ = deviations;
  }
  while (!held_.empty() && held_.front().buffer.step <= handed) {
    hand_out(held_.front());
    timeline_.done(held_.front().buffer.number, true);
    give_back(held_.front());
    held_.pop_front();
  }
}

void SetRunner::hand_out(const Flight& flight) {
  ClosedStep& step = steps_[flight.buffer.step];
  const std::byte* from = flight.sum.data();
  const std::size_t tensors = flight.buffer.tensors.size();
  if (step.reduced.empty()) step.reduced.reserve(tensors);
  if (flight.shared && step.shared.empty()) step.shared.reserve(tensors);
  for (const TensorId id : flight.buffer.tensors) {
    const TensorDescription& tensor = orderer_->description(id);
    const Place& to = place(id);
    if (flight.present && !flight.into_place && !flight.shared) {
      if (to.out != nullptr && tensor.count > 0) std::memcpy(to.out, from, tensor.bytes());
      from += tensor.bytes();
    }
    if (flight.present) step.reduced.push_back(&tensor);
    if (flight.shared) step.shared.push_back(&tensor);
    if (to.slot != nullptr) to.slot->reduced.store(flight.buffer.step + 1, std::memory_order_release);
  }
}

std::optional<std::vector<std::vector<TensorSlot*>>> SetRunner::take_plan() {
  const auto plan = orderer_->take_plan();
  if (!plan) return std::nullopt;
  cycle_.reset();
  std::vector<std::vector<TensorSlot*>> slots;
  for (const std::vector<TensorId>& buffer : *plan) {
    slots.emplace_back();
    for (const TensorId id : buffer) slots.back().push_back(place(id).slot);
  }
  return slots;
}

// ---- steps ----

StepNumber SetRunner::closed() const {
  StepNumber closed = orderer_->closed();
  const auto still = [&](StepNumber step) { closed = std::min(closed, step); };
  for (const FusedBuffer& buffer : waiting_) still(buffer.step);
  for (const Flight& flight : flying_) still(flight.buffer.step);
  for (const auto& [number, flight] : landed_) still(flight.buffer.step);
  for (const Flight& flight : held_) still(flight.buffer.step);
  return closed;
}

SetRunner::ClosedStep SetRunner::take_step(StepNumber step) {
  ClosedStep taken;
  if (auto known = steps_.extract(step)) taken = std::move(known.mapped());
  if (taken.header.ranks() == 0) taken.header.reset(engine_.size());
  return taken;
}

void SetRunner::watch(std::optional<TimePoint> waits, StepNumber step, TimePoint now) {
  const auto report = watch_.look(waits, step, now);
  if (!report) return;
  if (report->fails) return failure_.fail({Errc::timeout, report->line}, true);
  warnings_.push_back(report->line);
}

std::vector<std::string> SetRunner::take_lines() {
  std::vector<std::string> lines = orderer_->take_lines();
  lines.insert(lines.end(), warnings_.begin(), warnings_.end());
  warnings_.clear();
  return lines;
}

std::string SetRunner::waits_for() const {
  if (agreement_.under_way()) return text("agreement ", agreement_.traffic().begun - 1, " of set ", set_.number());
  if (!flying_.empty()) return text("buffer ", flying_.front().buffer.number, " of set ", set_.number());
  return text("the orderer of set ", set_.number());
}

}  // namespace stretto
