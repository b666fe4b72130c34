#include "stretto/ordering/negotiation/coordinator.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/words.h"
#include "stretto/ordering/orderer/fusion.h"

namespace stretto {
namespace {

using Kind = OrdererAction::Kind;

OrdererAction until(Kind kind, TimePoint when) {
  OrdererAction action;
  action.kind = kind;
  action.until = when;
  return action;
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options)
    : options_(std::move(options)), cache_(options_.cache_capacity), requests_(options_.ranks) {}

// ---- what the application does ----

Result<void> Coordinator::submitted(TensorId id, StepNumber step) {
  const std::string& name = table_.description(id).name;
  if (step != closed_ || ended_) {
    return Error{Errc::bad_input, text("tensor ", name, " is submitted in step ", step, ", which has ended: step ",
                                       closed_ + (ended_ ? 1 : 0), " is next")};
  }
  if (tensors_.size() < table_.names()) tensors_.resize(table_.names());
  Tensor& tensor = tensors_[table_.name_of(id)];
  if (tensor.step == step + 1) {
    return Error{Errc::bad_input, text("tensor ", name, " is submitted twice in step ", step)};
  }
  tensor = {.id = id, .step = step + 1, .pending = true};
  pending_.push_back(table_.name_of(id));
  if (defect(Defect::cache_by_local_use) && options_.cache_capacity > 0) {
    if (const auto position = cache_.find(table_.name_of(id))) cache_.use(*position);
  }
  return {};
}

void Coordinator::step_ended(StepNumber step) {
  STRETTO_CHECK(step == closed_, "step ", step, " ends, ", closed_, " is open");
  ended_ = true;
}

void Coordinator::drained() {
  drained_ = true;
  ended_ = true;
}

void Coordinator::completed(SequenceNumber number, const BufferHeader&) {
  --under_way_;
  outcomes_.push_back({number, true});
}

void Coordinator::control(const ControlResult& result) {
  STRETTO_CHECK(result.control + 1 == controls_, "control ", result.control, " of ", controls_);
  result_ = result;
}

std::vector<BufferOutcome> Coordinator::take_outcomes() {
  return std::exchange(outcomes_, {});
}

std::vector<std::string> Coordinator::take_lines() {
  return std::exchange(lines_, {});
}

std::vector<std::optional<TensorId>> Coordinator::cached() const {
  std::vector<std::optional<TensorId>> all;
  for (std::size_t position = 0; position < cache_.positions(); ++position) all.push_back(cache_.at(position));
  return all;
}

// ---- cycles ----

OrdererAction Coordinator::next(TimePoint now) {
  for (;;) {
    if (error_) {
      OrdererAction action;
      action.kind = Kind::fail;
      action.error = error_;
      return action;
    }
    if (!to_issue_.empty()) {
      OrdererAction action;
      action.kind = Kind::issue;
      action.buffer = std::move(to_issue_.front());
      to_issue_.pop_front();
      ++under_way_;
      return action;
    }
    if (auto action = advance(now)) return std::move(*action);
  }
}

std::optional<OrdererAction> Coordinator::advance(TimePoint now) {
  switch (phase_) {
    case Phase::napping:
      if (now < wakes_) return until(Kind::sleep, wakes_);
      return begin_cycle(now);
    case Phase::pausing: return until(Kind::wait, TimePoint::never());
    case Phase::over: return until(under_way_ > 0 ? Kind::wait : Kind::end, TimePoint::never());
    default: break;
  }
  if (!result_) return until(Kind::wait, TimePoint::never());
  const ControlResult result = *std::exchange(result_, std::nullopt);
  switch (phase_) {
    case Phase::syncing:
      take_sync(result);
      if (error_ || phase_ != Phase::syncing) return std::nullopt;
      if (!gathers_) return end_cycle(now);
      return begin(Kind::gather, Phase::gathering);
    case Phase::gathering: {
      OrdererAction action = begin(Kind::broadcast, Phase::broadcasting);
      if (first()) action.bytes = answer(result);
      return action;
    }
    default:
      take_answer(result);
      if (error_ || phase_ != Phase::broadcasting) return std::nullopt;
      return end_cycle(now);
  }
}

OrdererAction Coordinator::begin_cycle(TimePoint now) {
  ++cycles_;
  woke_ = now;
  if (drained_ && defect(Defect::drained_stops)) {
    phase_ = Phase::over;
    return until(Kind::end, TimePoint::never());
  }
  if (options_.cache_capacity == 0) return begin(Kind::gather, Phase::gathering);
  OrdererAction action = begin(Kind::sync, Phase::syncing);
  action.words = say(now).words();
  return action;
}

OrdererAction Coordinator::begin(Kind kind, Phase phase) {
  phase_ = phase;
  result_.reset();
  OrdererAction action;
  action.kind = kind;
  action.control = controls_++;
  if (kind == Kind::gather) action.bytes = report();
  return action;
}

OrdererAction Coordinator::end_cycle(TimePoint now) {
  wakes_ = now + std::max(Duration{0}, options_.cycle_time - (now - woke_));
  phase_ = Phase::napping;
  return until(Kind::sleep, wakes_);
}

void Coordinator::go_on(StepNumber step) {
  closed_ = step;
  ended_ = drained_;
  told_ = false;
  phase_ = Phase::napping;
}

// ---- what is said and heard ----

bool Coordinator::pending(TensorId id) const {
  const std::uint32_t name = table_.name_of(id);
  return name < tensors_.size() && tensors_[name].pending;
}

bool Coordinator::cached(const Tensor& tensor, std::size_t& position) const {
  const auto found = cache_.find(table_.name_of(tensor.id));
  position = found.value_or(0);
  return found.has_value();
}

/// From now on everything is as it was said: what comes later is said in the next sync.
CycleWords Coordinator::say(TimePoint now) {
  const bool caches = options_.cache_capacity > 0;
  CycleWords words(caches ? cache_.positions() : 0);
  CycleFlags flags;
  if (ended_) {
    for (std::size_t p = 0; p < cache_.positions(); ++p) words.set_hit(p, cache_.at(p).has_value());
  }
  for (const std::uint32_t name : pending_) {
    Tensor& tensor = tensors_[name];
    std::size_t position = 0;
    if (!caches || !cached(tensor, position)) {
      (tensor.asked == Asked::by_request ? flags.waiting : flags.unsent) = true;
    } else if (cache_.at(position) == tensor.id || defect(Defect::stale_hit)) {
      words.set_hit(position, true);
      words.set_pending(position);
      tensor.asked = Asked::by_bit;
    } else {
      words.set_hit(position, false);
      words.set_invalid(position);
    }
    if (!tensor.since) tensor.since = now;
    const Duration waited = now - *tensor.since;
    if (waited >= options_.stall_warning && !std::exchange(tensor.warned, true)) flags.overdue = true;
    flags.expired |= options_.stall_abort > Duration{0} && waited >= options_.stall_abort;
  }
  flags.untold = ended_ && !told_;
  flags.some_drained = drained_;
  flags.idle = ended_ && pending_.empty();
  flags.drained = drained_ && flags.idle;
  flags.stuck = ended_ || (options_.waits_for_one && blocked_ && pending(*blocked_));
  words.set(flags);
  if (fingerprint_) words.set_fingerprint(*fingerprint_);
  return words;
}

void Coordinator::take_sync(const ControlResult& result) {
  const Result<CycleWords> heard = CycleWords::of(result.words, cache_.positions());
  if (!heard) return fail(heard.error());
  const CycleWords& all = *heard;
  std::vector<TensorId> agreed;
  bool evicted = false;
  for (std::size_t p = 0; p < cache_.positions(); ++p) {
    if (!cache_.at(p)) continue;
    if (all.invalid(p)) {
      evicted = true;
      const bool here = std::ranges::any_of(
          pending_, [&](std::uint32_t name) { return cache_.find(name) == p && tensors_[name].id != cache_.at(p); });
      if (here || !defect(Defect::invalid_evicted_locally)) evict(p);
    } else if (all.hit(p) && (all.pending(p) || defect(Defect::pending_of_nobody))) {
      agreed.push_back(*cache_.at(p));
      if (!defect(Defect::cache_by_local_use)) cache_.use(p);
    }
  }
  const bool issues = !agreed.empty();
  issue(agreed);
  const CycleFlags flags = all.flags();
  const bool unsent_today = defect(Defect::words_of_today) && std::ranges::any_of(pending_, [&](std::uint32_t name) {
                              return tensors_[name].asked == Asked::no && !cache_.find(name);
                            });
  gathers_ = flags.unsent || unsent_today || evicted || (flags.waiting && flags.untold);
  take_flags(all, !issues && !gathers_);
  gathers_ |= report_ != Report::none;
}

/// `quiet`: nothing was agreed on in this cycle, and nobody asks for anything.
void Coordinator::take_flags(const CycleWords& all, bool quiet) {
  const CycleFlags flags = all.flags();
  if (quiet && flags.drained) {
    phase_ = Phase::over;
  } else if (quiet && (flags.idle || (defect(Defect::step_not_closed) && ended_ && pending_.empty()))) {
    close(all);
  } else if (quiet && flags.stuck) {
    report_ = Report::stall;
  } else if (flags.expired) {
    report_ = Report::expired;
  } else if (flags.overdue) {
    report_ = Report::overdue;
  }
}

std::vector<std::byte> Coordinator::report() {
  MemberReport report{.ended = ended_ && !defect(Defect::ended_untold), .drained = drained_};
  if (options_.cache_capacity == 0) report.words = say(woke_).words();
  told_ = ended_;
  for (const std::uint32_t name : pending_) {
    Tensor& tensor = tensors_[name];
    const TensorDescription& description = table_.description(tensor.id);
    if (report_ != Report::none) report.pending.push_back(description.name);
    const bool asked = tensor.asked != Asked::no && !defect(Defect::request_again);
    if (asked || (options_.cache_capacity > 0 && cache_.find(name))) continue;
    tensor.asked = Asked::by_request;
    report.requests.push_back(description);
  }
  if (blocked_) report.waits_for = table_.description(*blocked_).name;
  return report.encode();
}

/// What the first member answers to what the members have told.
std::vector<std::byte> Coordinator::answer(const ControlResult& result) {
  CoordinatorAnswer answer;
  std::vector<MemberReport> reports;
  const std::size_t members = options_.ranks.size();
  if (result.gathered.size() != members) {
    answer.error = Error{Errc::bad_input, text("requests of ", result.gathered.size(), " members of ", members)};
  }
  for (std::size_t member = 0; member < std::min(members, result.gathered.size()); ++member) {
    Result<MemberReport> told = MemberReport::decode(result.gathered[member], options_.set);
    const Result<void> taken = told ? requests_.take(static_cast<int>(member), *told) : Result<void>(told.error());
    if (!taken && !answer.error) answer.error = taken.error();
    reports.push_back(told ? std::move(*told) : MemberReport{});
  }
  for (const MemberReport& one : reports) {
    if (answer.words.empty()) answer.words = one.words;
    for (std::size_t i = 0; i < std::min(answer.words.size(), one.words.size()); ++i) answer.words[i] &= one.words[i];
  }
  if (!answer.error) answer.tensors = requests_.take_complete();
  if (report_ != Report::none && answer.tensors.empty() && !answer.error) answer.error = judge(reports);
  return answer.encode();
}

/// Of a report of who waits: what the job fails with, or a line.
std::optional<Error> Coordinator::judge(const std::vector<MemberReport>& reports) {
  const StallReport stall = requests_.stall(reports);
  if (stall.tensors.empty()) return std::nullopt;
  if (report_ == Report::stall) {
    return Error{Errc::bad_input, text("step ", closed_, ": no rank can go on: ", stall.circle())};
  }
  const Duration waited = report_ == Report::expired ? options_.stall_abort : options_.stall_warning;
  const std::string line = text("step ", closed_, ", after ", seconds(waited), " s: ", stall.to_text());
  if (report_ == Report::expired) return Error{Errc::timeout, line};
  lines_.push_back(line);
  return std::nullopt;
}

void Coordinator::take_answer(const ControlResult& result) {
  report_ = Report::none;
  const Result<CoordinatorAnswer> answer = CoordinatorAnswer::decode(result.bytes, options_.set);
  if (!answer) return fail(answer.error());
  if (answer->error) return fail(*answer->error);
  std::vector<TensorId> agreed;
  for (const TensorDescription& tensor : answer->tensors) agreed.push_back(table_.id_of(tensor));
  issue(agreed);
  if (options_.cache_capacity == 0) {
    const Result<CycleWords> all = CycleWords::of(answer->words, 0);
    if (!all) return fail(all.error());
    const CycleFlags flags = all->flags();
    take_flags(*all, agreed.empty() && !flags.unsent && !(flags.waiting && flags.untold));
    return;
  }
  for (const TensorId id : agreed) {
    if (cache_.find(table_.name_of(id))) return fail({Errc::bad_input, "an answer for a tensor that is cached"});
    if (const auto evicted = cache_.enter(id, table_.name_of(id))) forget(*evicted);
  }
}

void Coordinator::evict(std::size_t position) {
  const TensorId evicted = *cache_.at(position);
  cache_.evict(position);
  forget(evicted);
}

/// A bit that asked for the evicted tensor means nothing any more.
void Coordinator::forget(TensorId evicted) {
  const std::uint32_t name = table_.name_of(evicted);
  if (name >= tensors_.size() || !tensors_[name].pending || tensors_[name].asked != Asked::by_bit) return;
  tensors_[name].asked = defect(Defect::evicted_request_forgotten) ? Asked::by_request : Asked::no;
}

void Coordinator::issue(const std::vector<TensorId>& agreed) {
  if (agreed.empty()) return;
  if (tensors_.size() < table_.names()) tensors_.resize(table_.names());
  Fusion fusion(options_.fusion_bytes);
  std::vector<std::vector<TensorId>> buffers;
  for (const TensorId id : agreed) {
    const std::uint32_t number = fusion.place(table_.description(id));
    if (number == buffers.size()) buffers.emplace_back();
    buffers[number].push_back(id);
  }
  for (std::vector<TensorId>& ids : buffers) {
    FusedBuffer buffer = sequence_.next(closed_, std::move(ids), table_);
    for (std::size_t i = 0; i < buffer.tensors.size(); ++i) {
      Tensor& tensor = tensors_[table_.name_of(buffer.tensors[i])];
      if (tensor.pending && tensor.id != buffer.tensors[i] && !defect(Defect::stale_hit)) {
        return fail({Errc::diverged, text("tensor ", table_.description(tensor.id).name, " is agreed on as ",
                                          to_text(table_.description(buffer.tensors[i])), ", and submitted as ",
                                          to_text(table_.description(tensor.id)))});
      }
      buffer.brought[i] = std::exchange(tensor.pending, false);
    }
    buffer.drained = drained_;
    to_issue_.push_back(std::move(buffer));
  }
  std::erase_if(pending_, [&](std::uint32_t name) { return !tensors_[name].pending; });
}

void Coordinator::close(const CycleWords& all) {
  closing_ = all;
  ++closed_;
  ended_ = drained_;
  told_ = false;
  fingerprint_.reset();
  requests_.close();
  phase_ = options_.pauses ? Phase::pausing : phase_;
}

void Coordinator::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

}  // namespace stretto
