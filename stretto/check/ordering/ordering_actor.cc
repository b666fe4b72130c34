#include "stretto/check/ordering/ordering_actor.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/words.h"

namespace stretto {
namespace {

using Kind = OrdererAction::Kind;

/// Half of the jobs with a plan warn, and so ask the others, as soon as ranks that hold something back leave the plan.
Duration stall_warning(const OrderingJob& job) {
  return job.topo && job.seed % 2 == 1 ? kOrderingPatience : kOrderingPatience * 10;
}

CoordinatorOptions coordinator_options(const OrderingJob& job, int set, int member) {
  return {.set = set,
          .ranks = job.sets[static_cast<std::size_t>(set)],
          .member = member,
          .cycle_time = Duration{1},
          .fusion_bytes = job.fusion_bytes,
          .cache_capacity = job.cache_capacity,
          .waits_for_one = !job.several_threads,
          .stall_warning = stall_warning(job),
          .stall_abort = kOrderingPatience * 20};
}

}  // namespace

OrderingActor::OrderingActor(const OrderingJob& job, int rank, Networks& networks, std::uint64_t seed)
    : job_(job),
      rank_(rank),
      networks_(networks),
      random_(seed, 1000 + static_cast<std::uint64_t>(rank)),
      nodes_(job.tensors.size()),
      last_valid_(job.tensors.size()) {
  for (int set = 0; set < static_cast<int>(job.sets.size()); ++set) {
    const auto& members = job.sets[static_cast<std::size_t>(set)];
    const auto found = std::ranges::find(members, rank);
    if (found == members.end()) continue;
    Seat& seat = seats_.emplace_back(Seat{.set = set, .member = static_cast<int>(found - members.begin())});
    const CoordinatorOptions options = coordinator_options(job, set, seat.member);
    if (job.topo) {
      auto topo = std::make_unique<Topo>(TopoOptions{.coordinator = options,
                                                     .in_flight = job.in_flight,
                                                     .several_sets = job.sets.size() > 1,
                                                     .plan_patience = kOrderingPatience},
                                         patience_);
      seat.topo = topo.get();
      seat.coordinator = &topo->coordinator();
      seat.orderer = std::move(topo);
    } else if (job.changed.fix != nullptr) {
      auto changed = job.changed.fix->make(options, job.changed.every);
      seat.coordinator = &changed->coordinator();
      seat.orderer = std::move(changed);
    } else {
      auto coordinator = std::make_unique<Coordinator>(options);
      seat.coordinator = coordinator.get();
      seat.orderer = std::move(coordinator);
    }
  }
  if (defect(Defect::sets_in_different_order) && rank % 2 == 1) std::ranges::reverse(seats_);
}

void OrderingActor::violated(const std::string& what) {
  if (!violation_) violation_ = text("rank ", rank_, ", step ", step_, ": ", what);
}

OrderingActor::Seat* OrderingActor::seat_of(int set) {
  const auto found = std::ranges::find(seats_, set, &Seat::set);
  return found == seats_.end() ? nullptr : &*found;
}

// ---- the application ----

bool OrderingActor::apply_one() {
  if (does_.drained || failure_) return false;
  if (!in_step()) {
    does_.drained = true;
    ++progress_;
    return true;
  }
  const auto unreduced = [&](int tensor) { return nodes_[static_cast<std::size_t>(tensor)] != Node::reduced; };
  const int tensors = static_cast<int>(nodes_.size());
  const bool waits = does_.waits_for >= 0 && unreduced(does_.waits_for);
  if (waits && !job_.several_threads) return false;
  if (!waits) does_.waits_for = -1;
  if (ending_) {
    for (int t = 0; t < tensors; ++t) {
      if (job_.submits(rank_, step_, t) && unreduced(t)) return false;
    }
    for (const Seat& seat : seats_) {
      if (seat.orderer->closed() <= step_) return false;
    }
    ++step_;
    ++progress_;
    ending_ = false;
    std::ranges::fill(nodes_, Node::idle);
    return true;
  }
  std::vector<int> enabled;
  std::vector<int> needed, at_end;  // submitted, and not reduced
  for (int t = 0; t < tensors; ++t) {
    if (!job_.submits(rank_, step_, t)) continue;
    const Node node = nodes_[static_cast<std::size_t>(t)];
    if (node == Node::submitted && job_.waits_at_end(step_)) at_end.push_back(t);
    if (node != Node::idle) continue;
    bool ready = true;
    for (const int parent : job_.parents(rank_, step_, t)) {
      if (!unreduced(parent)) continue;
      ready = false;
      if (nodes_[static_cast<std::size_t>(parent)] == Node::submitted) needed.push_back(parent);
    }
    if (ready) enabled.push_back(t);
  }
  if (needed.empty()) needed = at_end;
  if (!enabled.empty()) {
    const int tensor = enabled[random_.below(enabled.size())];
    nodes_[static_cast<std::size_t>(tensor)] = Node::submitted;
    queue_.push_back(tensor);
    does_.waits_for = -1;
    ++progress_;
  } else if (waits) {
    return false;
  } else if (!needed.empty()) {
    does_.waits_for = job_.several_threads ? needed[random_.below(needed.size())] : std::ranges::min(needed);
  } else {
    ending_ = true;
    does_.ended = step_ + 1;
    ++progress_;
  }
  return true;
}

bool OrderingActor::stuck_in(int set) const {
  if (does_.drained || ending_) return queue_.empty() && seen_queue_.empty();
  return does_.waits_for >= 0 && job_.tensors[static_cast<std::size_t>(does_.waits_for)].set == set &&
         nodes_[static_cast<std::size_t>(does_.waits_for)] == Node::submitted && queue_.empty() && seen_queue_.empty();
}

// ---- the ordering thread ----

bool OrderingActor::look() {
  if (failure_) return false;
  const bool flags_first = !defect(Defect::ended_after_queue);
  const auto read_queue = [&] { seen_queue_ = std::exchange(queue_, {}); };
  if (!looking_) {
    if (queue_.empty() && does_ == told_) return false;
    looking_ = true;
    if (flags_first) {
      seen_ = does_;
    } else {
      read_queue();
    }
    if (random_.chance(0.3)) return true;  // something else happens in between
  }
  if (flags_first) {
    read_queue();
  } else {
    seen_ = does_;
  }
  looking_ = false;
  tell_all();
  return true;
}

void OrderingActor::tell_all() {
  const std::uint64_t open = told_.ended;  // the step that these tensors are of
  for (const int tensor : std::exchange(seen_queue_, {})) {
    Seat& seat = *seat_of(job_.tensors[static_cast<std::size_t>(tensor)].set);
    Orderer& orderer = *seat.orderer;
    const TensorId id = orderer.tensor(job_.described(rank_, open, tensor));
    const Result<void> taken = orderer.submitted(id, open);
    look_at_step(seat);
    seat.submitted.insert(id);
    if (!taken) violated(taken.error().message);
    if (!job_.topo) network(seat).told_submitted(seat.member, open, tensor, seat.coordinator->cycles());
  }
  for (Seat& seat : seats_) {
    const bool here = seen_.waits_for >= 0 && job_.tensors[static_cast<std::size_t>(seen_.waits_for)].set == seat.set;
    if (here && seen_.waits_for != told_.waits_for) {
      seat.orderer->blocked(seat.orderer->tensor(job_.described(rank_, open, seen_.waits_for)), now_);
    } else if (!here && seat.told_blocked) {
      seat.orderer->blocked(std::nullopt, now_);
    }
    seat.told_blocked = here;
    if (seen_.ended != told_.ended) {
      seat.orderer->executed(open, job_.executed(rank_, open));
      seat.orderer->step_ended(open);
      look_at_step(seat);
      seat.ended = true;
      if (!job_.topo) network(seat).told_ended(seat.member, open, seat.coordinator->cycles());
    }
    if (seen_.drained && !told_.drained) {
      seat.orderer->drained();
      if (!job_.topo) network(seat).told_drained(seat.member, seat.coordinator->cycles());
    }
  }
  ready_again();
  told_ = seen_;
}

bool OrderingActor::askable(const Seat& seat) const {
  return seat.state == Seat::State::ready || seat.state == Seat::State::sleeping;
}

bool OrderingActor::ask() {
  const std::size_t from = job_.one_thread ? cursor_ : random_.below(seats_.size());
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    const std::size_t at = (from + i) % seats_.size();
    if (job_.one_thread && blocking_ && at != cursor_) return false;
    if (!askable(seats_[at])) continue;
    cursor_ = at;
    ask(seats_[at]);
    return true;
  }
  return false;
}

bool OrderingActor::ask(Seat& seat) {
  if (seat.state == Seat::State::sleeping) now_ = std::max(now_, seat.until);
  const StepNumber closed = seat.orderer->closed();
  for (;;) {
    const OrdererAction action = seat.orderer->next(now_);
    lines_ += seat.orderer->take_lines().size();
    switch (action.kind) {
      case Kind::sleep:
        seat.state = Seat::State::sleeping;
        seat.until = action.until;
        break;
      case Kind::wait: seat.state = action.until <= now_ ? Seat::State::ready : Seat::State::waiting; break;
      case Kind::end: seat.state = Seat::State::over; break;
      case Kind::tell: network(seat).tell(seat.member, action.to, action.bytes); continue;
      case Kind::fail:
        seat.state = Seat::State::failed;
        if (!failure_) failure_ = action.error;
        break;
      default: {
        std::vector<TensorDescription> tensors;
        for (const TensorId id : action.buffer.tensors) tensors.push_back(seat.orderer->description(id));
        nulls_ += static_cast<std::uint64_t>(std::ranges::count(action.buffer.brought, false));
        if (action.kind == Kind::sync) network(seat).check_cache(seat.coordinator->cached(), *seat.orderer);
        if (action.kind == Kind::issue && !job_.topo) {
          network(seat).check_promptness(action.buffer, tensors, seat.coordinator->cycles());
        }
        network(seat).begin(seat.member, action, std::move(tensors));
        if (action.kind == Kind::issue) {
          look_at_step(seat);
          ++seat.issued;
          ready_again();
        }
        seat.state = Seat::State::ready;
        continue;
      }
    }
    break;
  }
  if (seat.topo != nullptr && seat.state != Seat::State::failed) check_promptness(seat);
  take_outcomes(seat);
  const StepNumber steps = seat.orderer->closed() - closed;
  progress_ += steps;
  if (job_.topo && job_.is_static() && job_.sets.size() <= 2 && seat.topo->deviations() > 0) {
    violated("O7: a rank has left the plan of a static graph");
  }
  if (job_.topo && job_.is_uniform() && seat.topo->gathered_plans() > 0) {
    violated("O7: ranks that execute the same graph have different plans");
  }
  blocking_ = seat.state == Seat::State::waiting && network(seat).control_under_way(seat.member);
  if (!blocking_) cursor_ = (cursor_ + 1) % seats_.size();
  return true;
}

// ---- collectives ----

bool OrderingActor::complete_control() {
  const std::size_t from = random_.below(seats_.size());
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = seats_[(from + i) % seats_.size()];
    if (const auto told = network(seat).take_told(seat.member)) {
      const Result<void> taken = seat.orderer->told(told->member, told->bytes);
      if (!taken) violated("a message of another member is refused: " + taken.error().message);
      ready_again();
      return true;
    }
    const auto result = network(seat).complete_control(seat.member);
    if (!result) continue;
    seat.orderer->control(*result);
    ready_again();
    return true;
  }
  return false;
}

void OrderingActor::ready_again() {
  for (Seat& seat : seats_) {
    if (seat.state == Seat::State::waiting) seat.state = Seat::State::ready;
  }
}

void OrderingActor::pass_time(Duration time) {
  now_ = now_ + time;
  const bool hangs = job_.contrary.rank >= 0;
  if (job_.several_threads && !hangs && random_.chance(0.5))
    does_.waits_for = -1;  // another thread waits for something else
  ready_again();
}

bool OrderingActor::complete_buffer() {
  const std::size_t from = random_.below(seats_.size());
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = seats_[(from + i) % seats_.size()];
    auto complete = network(seat).complete_buffer(seat.member);
    if (!complete) continue;
    seat.complete.push_back(*complete);
    look_at_step(seat);
    if (complete->step == seat.step) ++seat.completed;  // else one that the coordinator has issued
    const bool planned = seat.topo != nullptr && seat.topo->planned();
    const StepNumber closed = seat.orderer->closed();
    seat.orderer->completed(complete->number, complete->header);
    if (planned) planned_steps_ += seat.orderer->closed() - closed;
    take_outcomes(seat);
    ready_again();
    ++progress_;
    return true;
  }
  return false;
}

void OrderingActor::look_at_step(Seat& seat) {
  if (seat.step == seat.orderer->closed()) return;
  seat.step = seat.orderer->closed();
  seat.submitted.clear();
  seat.ended = false;
  seat.issued = seat.completed = 0;
}

void OrderingActor::check_promptness(Seat& seat) {
  look_at_step(seat);
  if (auto plan = seat.orderer->take_plan()) seat.plan = *std::move(plan);
  const std::size_t next = seat.issued;
  if (!seat.topo->planned() || next >= seat.plan.size()) return;
  if (next - seat.completed >= static_cast<std::size_t>(job_.in_flight)) return;
  const bool last = next + 1 == seat.plan.size();
  const auto& tensors = seat.plan[next];
  const auto submitted = [&](TensorId id) { return seat.submitted.contains(id); };
  if (seat.ended || (!last && std::ranges::all_of(tensors, submitted))) {
    violated(text("O6: buffer ", next, " of the plan of set ", seat.set, " is not issued, and all of it is there"));
  }
}

void OrderingActor::take_outcomes(Seat& seat) {
  for (const BufferOutcome& outcome : seat.orderer->take_outcomes()) {
    if (seat.complete.empty() || seat.complete.front().number != outcome.number) {
      return violated(text("buffer ", outcome.number, " has become valid or void out of turn"));
    }
    network(seat).outcome(seat.member, outcome);
    if (outcome.valid) {
      take_result(seat.complete.front());
    } else {
      ++void_buffers_;
    }
    seat.complete.pop_front();
  }
}

void OrderingActor::take_result(const OrderingNetwork::Complete& buffer) {
  for (std::size_t i = 0; i < buffer.tensors.size(); ++i) {
    const int tensor = job_.number_of(buffer.tensors[i].name);
    const auto t = static_cast<std::size_t>(tensor);
    const std::uint64_t expected = job_.expected(buffer.step, tensor);
    if (buffer.sums[i] != expected) {
      violated(text("O2: tensor t", tensor, " of step ", buffer.step, " is reduced to ", buffer.sums[i], ", expected ",
                    expected));
    }
    if (!job_.topo && !buffer.brought[i])
      violated(text("O2: tensor t", tensor, " is reduced, and nobody submitted it"));
    if (last_valid_[t] > buffer.step) violated(text("O2: tensor t", tensor, " is reduced twice in step ", buffer.step));
    last_valid_[t] = buffer.step + 1;
    if (!job_.submits(rank_, buffer.step, tensor)) continue;
    if (buffer.step != step_ || nodes_[t] != Node::submitted) {
      violated(text("O3: tensor t", tensor, " of step ", buffer.step, " is reduced"));
    }
    if (buffer.tensors[i] != job_.described(rank_, buffer.step, tensor)) {
      violated(text("O2: tensor t", tensor, " is reduced under another description"));
    }
    nodes_[t] = Node::reduced;
  }
}

bool OrderingActor::over() const {
  return std::ranges::all_of(seats_, [](const Seat& seat) { return seat.state == Seat::State::over; });
}

bool OrderingActor::failed(int set) const {
  const auto found = std::ranges::find(seats_, set, &Seat::set);
  return found != seats_.end() && found->state == Seat::State::failed;
}

std::uint64_t OrderingActor::gathered_plans() const {
  std::uint64_t plans = 0;
  for (const Seat& seat : seats_) plans += seat.topo != nullptr ? seat.topo->gathered_plans() : 0;
  return plans;
}

std::uint64_t OrderingActor::questions() const {
  std::uint64_t questions = 0;
  for (const Seat& seat : seats_) questions += seat.topo != nullptr ? seat.topo->questions() : 0;
  return questions;
}

std::string OrderingActor::state() const {
  std::string out = text("rank ", rank_, " in step ", step_, does_.drained ? ", drained" : ending_ ? ", ended" : "");
  if (does_.waits_for >= 0) out += text(", waits for t", does_.waits_for);
  for (const Seat& seat : seats_) {
    out += text("; set ", seat.set, " closed ", seat.orderer->closed(), seat.state == Seat::State::over ? " over" : "");
  }
  return out;
}

}  // namespace stretto
