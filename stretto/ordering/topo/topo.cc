#include "stretto/ordering/topo/topo.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/words.h"

namespace stretto {
namespace {

using Kind = OrdererAction::Kind;

constexpr std::uint64_t kMostDoublings = 10;  // of the steps that a graph must be stable
constexpr int kGapsOfPatience = 10;

CoordinatorOptions pausing(CoordinatorOptions options) {
  options.pauses = true;
  return options;
}

OrdererAction wait_until(TimePoint when) {
  OrdererAction action;
  action.kind = Kind::wait;
  action.until = when;
  return action;
}

}  // namespace

Topo::Topo(TopoOptions options, RankPatience& patience)
    : options_(std::move(options)),
      patience_(patience),
      coordinator_(pausing(options_.coordinator)),
      inquiry_(options_.coordinator.set, options_.coordinator.ranks, options_.coordinator.member,
               options_.coordinator.stall_warning, options_.coordinator.stall_abort) {}

// ---- what the application does ----

Result<void> Topo::submitted(TensorId id, StepNumber step) {
  if (step != step_ || ended_) return coordinator_.submitted(id, step_ + 1);  // which says why not
  const TensorTable& table = coordinator_.table();
  if (submitted_in_.size() < table.names()) submitted_in_.resize(table.names());
  StepNumber& last = submitted_in_[table.name_of(id)];
  if (last == step + 1) {
    return Error{Errc::bad_input, text("tensor ", table.description(id).name, " is submitted twice in step ", step)};
  }
  last = step + 1;
  acted_ |= !patience_.knows_submissions();
  submitted_anew_ = true;
  observed_.submitted(id);
  if (phase_ == Phase::coordinating) return coordinator_.submitted(id, step);
  if (array_.buffer_of(id)) {
    array_.submit(id);
  } else {
    unplanned_.push_back(id);
    leave(
        text("submits ", table.description(id).name, " (", to_text(table.description(id)), "), which is not planned"));
  }
  return {};
}

void Topo::executed(StepNumber step, const ExecutedGraph& graph) {
  STRETTO_CHECK(step == step_, "step ", step, " was executed, ", step_, " is open");
  graph_ = graph;
  if (phase_ == Phase::coordinating) plan_own(graph);
}

void Topo::step_ended(StepNumber step) {
  STRETTO_CHECK(step == step_, "step ", step, " ends, ", step_, " is open");
  ended_ = acted_ = moved_ = true;
  if (phase_ != Phase::coordinating) return;
  if (!graph_) executed(step, observed_.graph(coordinator_.table()));
  coordinator_.step_ended(step);
}

void Topo::drained() {
  drained_ = true;
  ended_ = true;
  coordinator_.drained();
}

void Topo::blocked(std::optional<TensorId> on, TimePoint since) {
  blocked_ = on;
  blocked_since_ = since;
  acted_ = true;
  const int set = options_.coordinator.set;
  patience_.waits(set, on ? std::optional(RankPatience::Wait{set, description(*on).name, since}) : std::nullopt);
  if (on) observed_.waits_for(*on);
  coordinator_.blocked(on, since);
}

// ---- without a plan ----

void Topo::plan_own(const ExecutedGraph& graph) {
  try {
    ExecutedGraph known = graph;
    if (defect(Defect::ids_by_arrival)) known = observed_.graph(coordinator_.table());
    const OrderingPlan plan = plan_order(known, {.fusion_bytes = options_.coordinator.fusion_bytes});
    own_plan_ = SetPlan::of(plan, options_.coordinator.set, options_.several_sets);
    coordinator_.set_fingerprint(plan.fingerprint(options_.coordinator.set));
  } catch (const UsageError& error) {
    error_ = Error{Errc::bad_input, error.what()};
  }
}

OrdererAction Topo::ask_coordinator(TimePoint now) {
  if (std::exchange(submitted_anew_, false)) gaps_.submitted(now, patience_);
  OrdererAction action = coordinator_.next(now);
  if (action.kind == Kind::issue) by_plan_.push_back(false);
  return action;
}

/// All members have closed a step, and know the same of it.
void Topo::after_close() {
  const CycleWords& all = coordinator_.closing();
  const bool equal = all.fingerprints_equal(), some_drained = all.flags().some_drained;
  stable_ = std::exchange(last_fingerprints_, all.fingerprints()) == all.fingerprints() ? stable_ + 1 : 1;
  const bool is_stable = stable_ >= std::uint64_t{1} << std::min(deviations_, kMostDoublings);
  const bool parts = options_.several_sets && !equal;
  if (!parts) parted_ = false;
  if (parts && is_stable && !std::exchange(parted_, true)) {
    phase_ = Phase::comparing;
  } else if (!is_stable || parts) {
    go_on();
  } else if (equal && !some_drained) {
    adopt(*own_plan_);
  } else {
    ++gathered_plans_;
    phase_ = Phase::gathering;
  }
}

void Topo::go_on() {
  step_ = coordinator_.closed();
  coordinator_.go_on(step_);
  phase_ = Phase::coordinating;
  ended_ = drained_;
  acted_ = true;
  graph_.reset();
  observed_.clear();
  submitted_anew_ = false;
  gaps_.clear();
}

OrdererAction Topo::begin(Kind kind, Phase phase) {
  phase_ = phase;
  OrdererAction action;
  action.kind = kind;
  action.control = coordinator_.take_control();
  return action;
}

/// On the first member: what those who have not drained would follow.
std::vector<RankPlan> Topo::plans_in(const ControlResult& result) {
  std::vector<RankPlan> plans;
  for (std::size_t member = 0; member < result.gathered.size(); ++member) {
    if (result.gathered[member].empty()) continue;  // has drained
    Result<SetPlan> plan = SetPlan::decode(result.gathered[member], options_.coordinator.set);
    if (!plan) gathered_error_ = plan.error();
    if (plan) plans.push_back({options_.coordinator.ranks[member], std::move(*plan)});
  }
  return plans;
}

/// On the first member: says once which plans differ, and where. Plans that differ in the end of the step alone are
/// equal here, where each has a mark.
void Topo::compare_plans(const ControlResult& result) {
  const int set = options_.coordinator.set;
  const std::string differs = plan_differences(plans_in(result));
  if (gathered_error_) error_ = gathered_error_;
  lines_.push_back(text("step ", step_, ": set ", set, ": ",
                        differs.empty() ? "the graphs of some ranks differ from those of others" : differs,
                        ", in a job of several process sets; coordinator until they are equal"));
}

/// On the first member: what all of them will do.
void Topo::take_graphs(const ControlResult& result) {
  if (options_.several_sets) {  // all plans are equal
    std::vector<RankPlan> plans = plans_in(result);
    if (!plans.empty()) gathered_ = std::move(plans.back().plan);
    return;
  }
  const int set = options_.coordinator.set;
  std::vector<RankGraph> graphs;
  for (std::size_t member = 0; member < result.gathered.size(); ++member) {
    const std::vector<std::byte>& bytes = result.gathered[member];
    if (bytes.empty()) continue;  // has drained
    Result<ExecutedGraph> graph = decode_graph(bytes, set);
    if (!graph) gathered_error_ = graph.error();
    if (graph) graphs.push_back({options_.coordinator.ranks[member], std::move(*graph)});
  }
  if (gathered_error_) return;
  try {
    const FusionOptions fusion{.fusion_bytes = options_.coordinator.fusion_bytes};
    gathered_ = SetPlan::of(plan_order(union_of(graphs), fusion), set, false);
    std::vector<RankPlan> plans;
    for (const auto& [rank, graph] : graphs) {
      plans.push_back({rank, SetPlan::of(plan_order(graph, fusion), set, false)});
    }
    const std::string differs = plan_differences(plans);
    if (!differs.empty()) lines_.push_back(text("step ", step_, ": ", differs, "; planned is the union of all"));
  } catch (const UsageError& error) {
    gathered_error_ = Error{Errc::bad_input, error.what()};
  }
}

void Topo::take_plan(const ControlResult& result) {
  Result<SetPlan> plan = SetPlan::decode(result.bytes, options_.coordinator.set);
  if (plan) return adopt(*plan);
  error_ =
      Error{Errc::bad_input, "no plan of all graphs: " +
                                 std::string(reinterpret_cast<const char*>(result.bytes.data()), result.bytes.size())};
}

void Topo::adopt(const SetPlan& plan) {
  std::vector<std::vector<TensorId>> buffers;
  for (const auto& tensors : plan.buffers) {
    buffers.emplace_back();
    for (const TensorDescription& tensor : tensors) buffers.back().push_back(coordinator_.tensor(tensor));
  }
  array_ = RequestArray(std::move(buffers));
  new_plan_ = true;
  own_plan_.reset();
  gathered_.reset();
  phase_ = Phase::planned;
  step_ = coordinator_.closed() - 1;
  finish_step();
}

// ---- by the plan ----

bool Topo::ready(std::size_t buffer) const {
  if (ended_ || leaving_) return true;
  const bool last = buffer + 1 == array_.size() && !defect(Defect::last_buffer_before_end);
  return !last && array_.full(buffer);
}

bool Topo::holds() const {
  if (!blocked_ || phase_ == Phase::over) return false;
  if (phase_ != Phase::planned) return coordinator_.pending(*blocked_);
  const std::optional<std::size_t> buffer = array_.buffer_of(*blocked_);
  return buffer && *buffer >= issued_ && !ready(issued_);
}

void Topo::look_for_changes(TimePoint now) {
  const bool holds_back = holds();
  patience_.holds(options_.coordinator.set, holds_back ? std::optional(blocked_since_) : std::nullopt);
  look_for_stall(now);
  if (phase_ != Phase::planned) return;
  if (leaving_ || ended_ || defect(Defect::no_patience)) return;
  if (patience_.left_in(step_)) return leave("leaves the plan of another process set");
  if (holds_back && now - blocked_since_ >= patience()) {
    const std::optional<TensorId> missing = array_.missing(issued_);
    return leave(missing ? "has no gradient for " + description(*missing).name
                         : text("waits for ", description(*blocked_).name, " before the end of the step"));
  }
  const std::optional<TimePoint> beside = patience_.held_beside(options_.coordinator.set);
  if (beside && now - *beside >= patience() && !ready(issued_)) leave("waits for another process set");
}

/// Issues the remaining buffers of the step without bringing anything, and says so in them.
void Topo::leave(const std::string& why) {
  if (leaving_) return;
  leaving_ = true;
  patience_.left(step_);
  const auto member = static_cast<std::size_t>(options_.coordinator.member);
  const std::string line = text("step ", step_, ": rank ", options_.coordinator.ranks[member], " ", why);
  if (options_.on_change == TopoOptions::OnChange::fail) {
    error_ = Error{Errc::diverged, line};
  } else {
    lines_.push_back(line + "; coordinator until the graph is stable");
  }
}

OrdererAction Topo::issue() {
  OrdererAction action;
  action.kind = Kind::issue;
  action.buffer = coordinator_.next_buffer(step_, array_.tensors(issued_));
  for (std::size_t i = 0; i < action.buffer.tensors.size(); ++i) {
    action.buffer.brought[i] = !leaving_ && array_.submitted(action.buffer.tensors[i]);
  }
  action.buffer.changed = leaving_ && !defect(Defect::deviator_silent);
  action.buffer.drained = drained_;
  by_plan_.push_back(true);
  ++issued_;
  return action;
}

OrdererAction Topo::follow() {
  const std::size_t in_flight = defect(Defect::full_buffer_held) ? 1 : static_cast<std::size_t>(options_.in_flight);
  const bool window = issued_ - done_ < in_flight;
  if (issued_ < array_.size() && window && ready(issued_)) return issue();
  return wait_until(next_look());
}

/// When look_for_changes() may find something though nothing happens.
TimePoint Topo::next_look() const {
  TimePoint when = inquiry_.next_look(waits_since());
  if (leaving_ || ended_ || ready(issued_)) return when;
  const std::optional<TimePoint> beside = patience_.held_beside(options_.coordinator.set);
  if (beside) when = std::min(when, *beside + patience());
  if (holds()) when = std::min(when, blocked_since_ + patience());
  return when;
}

/// However long this application computes: before the time limit of those who wait for it is over.
Duration Topo::patience() const {
  const Duration patience = std::max(options_.plan_patience, kGapsOfPatience * gaps_.longest());
  const Duration abort = options_.coordinator.stall_abort;
  return abort > Duration{0} ? std::min(patience, abort / 2) : patience;
}

void Topo::completed(SequenceNumber number, const BufferHeader& header) {
  const bool by_plan = by_plan_.front();
  by_plan_.pop_front();
  moved_ = true;
  if (!by_plan) {
    coordinator_.completed(number, header);
    const std::vector<BufferOutcome> all = coordinator_.take_outcomes();
    outcomes_.insert(outcomes_.end(), all.begin(), all.end());
    return;
  }
  if (header.changed && !void_from_) {
    void_from_ = done_;
    leaving_ = true;
    patience_.left(step_);
  }
  all_drained_ |= header.all_drained;
  outcomes_.push_back({number, !void_from_ || defect(Defect::void_applied)});
  if (++done_ < array_.size()) return;
  if (void_from_) {
    fall_back();
  } else {
    finish_step();
  }
}

/// The open step is closed on all members; the next one follows the plan.
void Topo::finish_step() {
  ++step_;
  if (all_drained_) phase_ = Phase::over;
  ended_ = drained_;
  acted_ = true;
  leaving_ = false;
  issued_ = done_ = 0;
  graph_.reset();
  observed_.clear();
  unplanned_.clear();
  array_.clear();
}

/// What was in void buffers, and what nobody has planned, is the coordinator's.
void Topo::fall_back() {
  ++deviations_;
  stable_ = 0;
  phase_ = Phase::coordinating;
  new_plan_ = true;
  coordinator_.go_on(step_);
  submitted_anew_ = false;
  gaps_.clear();
  std::vector<TensorId> left = std::move(unplanned_);
  for (std::size_t buffer = *void_from_; buffer < array_.size(); ++buffer) {
    for (const TensorId id : array_.tensors(buffer)) {
      if (array_.submitted(id)) left.push_back(id);
    }
  }
  for (const TensorId id : left) {
    const Result<void> taken = coordinator_.submitted(id, step_);
    if (!taken) error_ = taken.error();
  }
  if (graph_) plan_own(*graph_);
  if (ended_ && !drained_) step_ended(step_);
  unplanned_.clear();
  void_from_.reset();
  leaving_ = false;
  issued_ = done_ = 0;
}

// ---- what is done next ----

void Topo::control(const ControlResult& result) {
  if (phase_ == Phase::coordinating) {
    coordinator_.control(result);
  } else {
    result_ = result;
  }
}

OrdererAction Topo::next(TimePoint now) {
  for (;;) {
    note_activity(now);
    look_for_changes(now);
    if (auto message = tell(now)) return *std::move(message);
    if (error_) {
      OrdererAction action;
      action.kind = Kind::fail;
      action.error = error_;
      return action;
    }
    switch (phase_) {
      case Phase::coordinating: {
        OrdererAction action = ask_coordinator(now);
        if (!coordinator_.pausing()) return action;
        if (action.kind == Kind::issue) return action;
        after_close();
        if (phase_ != Phase::gathering && phase_ != Phase::comparing) continue;
        OrdererAction gather = begin(Kind::gather, phase_);
        if (own_plan_ && !drained_) gather.bytes = options_.several_sets ? own_plan_->encode() : encode_graph(*graph_);
        return gather;
      }
      case Phase::comparing: {
        if (!result_) return wait_until(TimePoint::never());
        const ControlResult result = *std::exchange(result_, std::nullopt);
        if (options_.coordinator.member == 0) compare_plans(result);
        go_on();
        continue;
      }
      case Phase::gathering: {
        if (!result_) return wait_until(TimePoint::never());
        const ControlResult result = *std::exchange(result_, std::nullopt);
        OrdererAction broadcast = begin(Kind::broadcast, Phase::broadcasting);
        if (options_.coordinator.member != 0) return broadcast;
        take_graphs(result);
        if (gathered_ && !gathered_error_) {
          broadcast.bytes = gathered_->encode();
        } else {
          const std::string why = gathered_error_ ? gathered_error_->message : "no member has one";
          const auto* bytes = reinterpret_cast<const std::byte*>(why.data());
          broadcast.bytes.assign(bytes, bytes + why.size());
        }
        return broadcast;
      }
      case Phase::broadcasting: {
        if (!result_) return wait_until(TimePoint::never());
        const ControlResult result = *std::exchange(result_, std::nullopt);
        take_plan(result);
        continue;
      }
      case Phase::planned: return follow();
      case Phase::over: {
        OrdererAction action = wait_until(TimePoint::never());
        if (by_plan_.empty()) action.kind = Kind::end;
        return action;
      }
    }
  }
}

std::optional<std::vector<std::vector<TensorId>>> Topo::take_plan() {
  if (!std::exchange(new_plan_, false)) return std::nullopt;
  std::vector<std::vector<TensorId>> plan;
  if (phase_ != Phase::planned) return plan;
  for (std::size_t buffer = 0; buffer < array_.size(); ++buffer) plan.push_back(array_.tensors(buffer));
  return plan;
}

std::vector<BufferOutcome> Topo::take_outcomes() {
  return std::exchange(outcomes_, {});
}

std::vector<std::string> Topo::take_lines() {
  std::vector<std::string> all = coordinator_.take_lines();
  all.insert(all.end(), lines_.begin(), lines_.end());
  lines_.clear();
  return all;
}

}  // namespace stretto
