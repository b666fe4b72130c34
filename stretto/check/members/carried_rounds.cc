#include "stretto/check/members/carried_rounds.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/random.h"

namespace stretto {
namespace {

using StepKind = CarriedRounds::Step::Kind;

constexpr std::uint64_t kDrawStream = 0x6d656d62657273;

}  // namespace

Holding CarriedRounds::holding(MemberNumber number) const {
  const Process& process = this->process(number);
  Holding holding;
  if (!process.has_model) return holding;
  holding.held = static_cast<RoundsHeld>(process.complete());
  for (const Outcome& outcome : process.results) {
    for (const Deposit& deposit : outcome.deposits) ++holding.applied[deposit.by];
  }
  const bool in_flight = std::ranges::any_of(process.joined, [](const auto& one) { return !one.second.empty(); });
  if (averages() && defect(Defect::averaged_counts_untaken)) {
    for (const auto& [round, places] : process.heard) {
      for (const auto& [place, joined] : places) {
        for (const Deposit& deposit : joined.deposits) ++holding.applied[deposit.by];
      }
    }
  }
  holding.pending = in_flight || !process.pending.empty() || process.hand.has_value();
  if (options_.leaves_beside && process.leaves) {
    holding.pending = process.hand.has_value();
    holding.beside = process.handed_over.size() - holding.applied.of(number);
  }
  return holding;
}

bool CarriedRounds::is_at_call(MemberNumber number) const {
  const Process& process = this->process(number);
  if (!process.is_there || process.at == At::computing) return false;
  return process.at != At::idle || !process.has_begun;
}

bool CarriedRounds::may_go(MemberNumber number) const {
  const Process& process = this->process(number);
  // Where models are averaged what is pending is in the average with which the next world begins.
  return process.leaves && process.has_begun && process.at != At::idle &&
         (averages() ? !process.hand.has_value() : !holding(number).pending);
}

void CarriedRounds::enter(MemberNumber number, const View& view) {
  Process& process = change(number);
  Mesh& mesh = meshes_[view.epoch];
  if (view.epoch <= process.epoch) {
    violated(text("member ", number, " enters epoch ", view.epoch, " from epoch ", process.epoch));
  }
  mesh.view = view;
  if (defect(Defect::members_one_memory)) meshes_[0];
  process.epoch = view.epoch;
  process.place = *view.place_of(number);
  process.is_stopped = process.has_begun = process.meets = false;
  if (!averages() || !defect(Defect::averaged_in_flight_stays)) process.heard.clear();
  process.handed = process.complete();
  if (view.complete == 0 && view.members[process.place].held == 0) {
    if (!process.has_model) process.weighs = process.is_own = true;
    process.has_model = true;
  }
  if (averages() && process.has_model && process.complete() + 1 < view.complete) {
    violated(text("member ", number, " lacks the averages from ", process.complete(), " to ", view.complete));
  }
  mesh.entered.insert(process.place);
  if (!process.has_model) return;
  const auto note = [](bool is, bool& noted, std::uint64_t& count) {
    if (is && !std::exchange(noted, true)) ++count;
  };
  note(process.complete() < view.complete, mesh.behind, counts_.behind);
  note(process.complete() + 1 < view.complete, mesh.far_behind, counts_.far_behind);
}

/// The world with the memory by which its members hear each other.
CarriedRounds::Mesh& CarriedRounds::with_links(const Process& process) {
  return defect(Defect::members_one_memory) ? meshes_[0] : meshes_.at(process.epoch);
}

bool CarriedRounds::may_begin(MemberNumber number) const {
  const Process& process = this->process(number);
  if (!process.is_there || process.epoch == 0 || process.has_begun || !process.has_model) return false;
  if (process.is_stopped && !defect(Defect::members_begins_stopped)) return false;
  const Mesh& mesh = this->mesh(process);
  if (averages()) return process.meets && process.complete() > mesh.view.complete;
  return mesh.entered.size() == mesh.view.members.size() && process.complete() >= mesh.view.complete;
}

void CarriedRounds::begin(MemberNumber number) {
  Process& process = change(number);
  if (!averages()) go_on(number, process);
  process.has_begun = true;
  settle(process);
}

/// The process goes on in its world with what it has of those before.
void CarriedRounds::go_on(MemberNumber number, Process& process) {
  Mesh& mesh = meshes_.at(process.epoch);
  const std::uint64_t first = mesh.view.complete;
  if (process.complete() != first) {
    violated(text("member ", number, " begins epoch ", process.epoch, " with ", process.complete(),
                  " rounds, and not with ", first));
  }
  if (!mesh.history) {
    mesh.history.emplace();
    for (const Outcome& outcome : process.results) add_to_history(mesh, outcome);
  }
  const auto& history = *mesh.history;
  if (history.size() < std::max(first, process.complete()) ||
      !std::equal(process.results.begin(), process.results.end(), history.begin())) {
    violated(text("member ", number, " begins epoch ", process.epoch, " with other results than the others"));
  }
  Deposits front;
  for (const auto& [round, deposits] : process.joined) {
    if (round >= first) front.insert(front.end(), deposits.begin(), deposits.end());
  }
  if (!front.empty() && !std::exchange(mesh.carried, true)) ++counts_.carried;
  process.pending.insert(process.pending.begin(), front.begin(), front.end());
  process.joined.clear();
  process.ticket = process.handed = process.joins = process.active = first;
  if (averages()) {  // all come to the first round, whatever they were at
    process.arrived = first;
    process.at = At::waiting;
    process.drained = false;
    process.meets = true;
    return;
  }
  process.arrived = defect(Defect::members_arrive_not_again) ? ~std::uint64_t{0} : first;
  if (defect(Defect::members_drain_stands)) return;
  process.drained = false;
  if (process.at == At::draining || process.at == At::finished) return_from_call(process);
}

/// What all have is for good once all members of the view have begun.
void CarriedRounds::settle(const Process& process) {
  const Mesh& mesh = this->mesh(process);
  for (const PlacedMember& member : mesh.view.members) {
    const Process& other = this->process(member.number);
    if (other.epoch != process.epoch || !other.has_begun) return;
  }
  BatchesApplied applied;
  for (std::uint64_t round = 0; round < mesh.view.complete; ++round) {
    for (const Deposit& deposit : (*mesh.history)[round].deposits) ++applied[deposit.by];
  }
  for (const auto& [number, count] : applied) pool_.settle(number, count);
}

void CarriedRounds::decided(const View& view, PoolChange change) {
  newest_ = view;
  pool_ = std::move(change.pool);
  dropped_.insert(change.dropped.begin(), change.dropped.end());
  for (const std::uint64_t batch : change.dropped) {
    if (const std::uint64_t losses = lost_at(batch); losses < Pool::kMostLosses) {
      violated(text("batch ", batch, " is dropped, which ", losses, " lost members had drawn last"));
    }
  }
}

/// So many members are lost that have drawn this batch as their last.
std::uint64_t CarriedRounds::lost_at(std::uint64_t batch) const {
  return static_cast<std::uint64_t>(std::ranges::count_if(processes_, [&](const auto& one) {
    return one.second.last_drawn == batch && !newest_.has(one.first) && !newest_.has_departed(one.first);
  }));
}

bool CarriedRounds::is_full(std::uint64_t round) const {
  if (averages() || options_.policy == Policy::Kind::full) return true;
  return options_.full_every > 0 && (round + 1) % options_.full_every == 0;
}

bool CarriedRounds::has_come(const Process& process, std::uint64_t round) const {
  if (process.drained || (process.leaves && process.at == At::draining)) return true;
  return process.at == At::waiting && process.arrived == round;
}

/// Whether it has come for something, and not because it computes no more.
bool CarriedRounds::wants(const Process& process, std::uint64_t round) const {
  return !process.drained && has_come(process, round) && (process.at == At::waiting || !process.pending.empty());
}

bool CarriedRounds::may_start(const Process& process) const {
  const std::uint64_t round = process.complete();
  if (process.active > round || is_full(round)) return false;
  std::size_t come = 0, arrived = 0, drained = 0;
  const Mesh& mesh = this->mesh(process);
  for (const PlacedMember& member : mesh.view.members) {
    const Process& other = this->process(member.number);
    if (other.epoch != process.epoch || !other.has_begun) continue;
    come += has_come(other, round) ? 1 : 0;
    arrived += wants(other, round) ? 1 : 0;
    drained += other.drained ? 1 : 0;
  }
  const std::size_t size = mesh.view.members.size();
  // A header of another world says nothing of this one: batches may have come back.
  if (drained == size) return round == mesh.view.complete || !process.results.back().all_drained;
  if (arrived == 0 || !has_come(process, round)) return false;
  switch (options_.policy) {
    case Policy::Kind::solo: return wants(process, round);
    case Policy::Kind::majority: return process.place == random_bits(options_.seed, kDrawStream, round) % size;
    default: break;
  }
  const std::size_t of = defect(Defect::members_old_quorum) ? meshes_.lower_bound(1)->second.view.members.size() : size;
  return come >= (options_.quorum == 0 ? (of + 1) / 2 : std::min(options_.quorum, of));
}

bool CarriedRounds::may_join(const Process& process) const {
  if (process.joins >= process.handed + options_.max_lag) return false;
  const std::uint64_t round = process.joins;
  if (!is_full(round)) return round < process.active;
  if (round != process.complete() || !has_come(process, round)) return false;
  // Who computes no more enters for the others, or for the last round.
  return wants(process, round) || process.drained || process.heard.contains(round);
}

bool CarriedRounds::is_complete(const Process& process) const {
  const auto found = process.heard.find(process.complete());
  return found != process.heard.end() && found->second.size() == mesh(process).view.members.size();
}

/// Whether `other` can give `process` what it lacks of the rounds before their world.
bool CarriedRounds::can_give(const Process& process, const Process& other) const {
  if (!other.is_there || other.is_stopped || !other.has_model || other.epoch != process.epoch) return false;
  if (averages() && !process.has_model && defect(Defect::averaged_from_one_behind)) return true;
  return process.has_model ? other.complete() > process.complete() : other.complete() >= mesh(process).view.complete;
}

/// The rounds that all of its world have said that they hold.
std::uint64_t CarriedRounds::shown_to_all(const Process& process) const {
  std::uint64_t least = process.complete();
  if (defect(Defect::members_published_at_once)) return least;
  if (defect(Defect::members_published_by_view)) return std::min(least, mesh(process).view.complete);
  for (const PlacedMember& member : mesh(process).view.members) {
    const Process& other = this->process(member.number);
    least = other.epoch == process.epoch && other.has_begun ? std::min(least, other.complete()) : 0;
  }
  return least;
}

void CarriedRounds::add_steps(std::vector<Step>& steps) const {
  for (const auto& [number, process] : processes_) {
    if (!process.is_there || process.epoch == 0) continue;
    if (process.at == At::computing) steps.push_back({StepKind::hand_over, number});
    if (process.has_begun) {
      if (process.at == At::idle) steps.push_back({StepKind::compute, number});
      const bool wakes = process.at == At::waiting && process.complete() > process.arrived;
      const bool lags = process.at == At::draining && process.complete() > process.handed;
      if (wakes || lags) steps.push_back({StepKind::take, number});
      if (process.at == At::draining && !process.drained && pool_.is_empty())
        steps.push_back({StepKind::drain, number});
    }
    if (process.is_stopped && averages() && defect(Defect::averaged_takes_when_stopped) && process.meets &&
        is_complete(process)) {
      steps.push_back({StepKind::complete, number});
    }
    const bool begins_stopped = defect(Defect::members_begins_stopped) && !process.has_begun;
    if (!process.is_stopped || begins_stopped) add_engine_steps(number, steps);
  }
}

void CarriedRounds::add_engine_steps(MemberNumber number, std::vector<Step>& steps) const {
  const Process& process = this->process(number);
  const Mesh& mesh = this->mesh(process);
  const auto& members = mesh.view.members;
  if (!process.has_begun) {
    if (mesh.entered.size() < members.size()) return;
    const bool is_new = members[process.place].held == kNoModel;
    const bool lacks = !process.has_model || (process.complete() < mesh.view.complete &&
                                              !(is_new && averages() && defect(Defect::averaged_from_one_behind)));
    if (!lacks && averages() && !process.meets) steps.push_back({StepKind::meet, number});
    if (!lacks && !process.meets) return;
    for (std::size_t place = 0; lacks && place < members.size(); ++place) {
      if (!can_give(process, this->process(members[place].number))) continue;
      steps.push_back({StepKind::fetch, number, place});
      break;  // which of them gives makes no difference
    }
    if (lacks) return;
  }
  if (process.at != At::finished) {
    if (may_start(process)) steps.push_back({StepKind::start, number});
    if (may_join(process)) steps.push_back({StepKind::join, number});
  }
  const bool takes = !averages() || process.at == At::waiting || process.at == At::draining;
  if (takes && is_complete(process)) steps.push_back({StepKind::complete, number});
  const auto& links = defect(Defect::members_one_memory) ? meshes_.at(0).links : mesh.links;
  for (std::size_t place = 0; place < members.size(); ++place) {
    const auto link = links.find({place, process.place});
    if (link != links.end() && !link->second.empty()) steps.push_back({StepKind::hear, number, place});
  }
  if (options_.publishes && shown_to_all(process) > published_.size()) steps.push_back({StepKind::publish, number});
}

void CarriedRounds::take(const Step& step) {
  Process& process = change(step.number);
  switch (step.kind) {
    case StepKind::compute: return draw_batch(step.number, process);
    case StepKind::hand_over: return hand_over(step.number, process);
    case StepKind::drain: process.drained = true; return;
    case StepKind::start: process.active = process.complete() + 1; return;
    case StepKind::join: return join(process);
    case StepKind::complete: return complete(step.number, process);
    case StepKind::meet: return go_on(step.number, process);
    case StepKind::publish: return publish(process);
    case StepKind::take: {
      process.handed = process.complete();
      if (process.at == At::draining) {
        if (process.results.back().all_drained) process.at = At::finished;
        return;
      }
      process.ticket = process.arrived + 1;
      return return_from_call(process);
    }
    case StepKind::hear: {
      auto& link = with_links(process).links.at({step.from, process.place});
      Joined joined = std::move(link.front());
      link.pop_front();
      process.active = std::max(process.active, joined.round + 1);
      process.heard[joined.round][step.from] = std::move(joined);
      return;
    }
    case StepKind::fetch: {
      const Mesh& mesh = this->mesh(process);
      const Process& holder = this->process(mesh.view.members[step.from].number);
      const std::uint64_t held = process.complete();
      if (averages()) take_model(step.number, process, holder);
      if (process.has_model) {
        process.results.push_back(holder.results[held]);
      } else {
        const std::uint64_t first = std::min(mesh.view.complete, holder.complete());
        process.results.assign(holder.results.begin(), holder.results.begin() + static_cast<std::ptrdiff_t>(first));
        process.has_model = true;
      }
      process.handed = process.complete();
      return;
    }
  }
}

/// The application comes out of a call: it takes the next batch, or has none.
void CarriedRounds::return_from_call(Process& process) {
  process.at = process.leaves ? At::draining : At::idle;
}

void CarriedRounds::draw_batch(MemberNumber number, Process& process) {
  if (process.leaves) return return_from_call(process);
  pool_.computed(number, process.computed.size());
  const auto batch = pool_.take(number);
  if (!batch) {
    if (newest_.has(number)) process.last_drawn.reset();  // else it is lost already, by the last that it has drawn
    process.at = At::draining;
    process.drained = true;
    return;
  }
  if (!process.computed.insert(*batch).second) violated(text("member ", number, " computes batch ", *batch, " twice"));
  const Mesh& mesh = meshes_.at(process.epoch);
  if (!process.is_stopped && mesh.batches.contains(*batch))
    violated(text("batch ", *batch, " is handed out, and in a result"));
  for (const PlacedMember& member : mesh.view.members) {
    const Process& other = this->process(member.number);
    const bool goes_on = newest_.has(member.number) && other.epoch == process.epoch && other.is_there;
    if (member.number != number && goes_on && other.hand == batch) {
      violated(text("batch ", *batch, " is handed to member ", number, " while member ", member.number, " has it"));
    }
  }
  if (lost_at(*batch) >= Pool::kMostLosses) {
    violated(text("batch ", *batch, " is handed out, which ", lost_at(*batch), " lost members had drawn last"));
  }
  process.hand = process.last_drawn = batch;
  process.base = process.handed;
  process.at = At::computing;
}

void CarriedRounds::hand_over(MemberNumber number, Process& process) {
  if (averages()) process.model = process.model + step_of(*process.hand);
  process.pending.push_back({*std::exchange(process.hand, std::nullopt), number, process.base});
  if (averages()) process.handed_over.push_back(process.pending.back());
  exchange(process);
}

/// Rule 2 of docs/protocol.md. One whose engine has stopped takes what is complete, and waits for the view.
void CarriedRounds::exchange(Process& process) {
  const std::uint64_t open = process.complete();
  if (averages() && ++process.steps < options_.average_every && !process.is_stopped) return return_from_call(process);
  process.handed = open;
  process.arrived = open;
  if (process.is_stopped || process.ticket >= open || is_full(open)) {
    process.ticket = open;
    process.at = At::waiting;
    return;
  }
  process.ticket = std::max(process.ticket + 1, open - std::min(open, options_.max_lag));
  return_from_call(process);
}

void CarriedRounds::join(Process& process) {
  const Mesh& mesh = meshes_.at(process.epoch);
  auto& links = with_links(process).links;
  Joined joined{.round = process.joins, .deposits = process.pending, .drained = process.drained};
  if (averages()) {
    joined.model = process.model;
    joined.weighs = process.weighs;
    joined.is_own = process.is_own;
    check_model(mesh.view.members[process.place].number, process);
  }
  process.pending.clear();
  process.joined[joined.round] = joined.deposits;
  process.heard[joined.round][process.place] = joined;
  process.active = std::max(process.active, joined.round + 1);
  ++process.joins;
  for (std::size_t place = 0; place < mesh.view.members.size(); ++place) {
    if (place == process.place) continue;
    links[{process.place, place}].push_back(joined);
    ++messages_;
  }
}

void CarriedRounds::complete(MemberNumber number, Process& process) {
  Mesh& mesh = meshes_.at(process.epoch);
  const std::uint64_t round = process.complete();
  Outcome outcome{{}, true};
  for (const auto& [place, joined] : process.heard.at(round)) {
    outcome.deposits.insert(outcome.deposits.end(), joined.deposits.begin(), joined.deposits.end());
    outcome.all_drained &= joined.drained;
  }
  if (averages()) {
    const Deposits left = left_beside(process, outcome.deposits);
    outcome.deposits.insert(outcome.deposits.end(), left.begin(), left.end());
    counts_.left_beside += left.size();
    process.model = outcome.model = average(process);
    if (process.is_stopped) return;  // planted
  }
  for (const Deposit& deposit : outcome.deposits) {
    if (!averages() && round > deposit.base + options_.max_lag) {
      violated(text("round ", round, " has batch ", deposit.batch, " of member ", deposit.by, ", of base ",
                    deposit.base, ", later than ", options_.max_lag, " rounds"));
    }
  }
  process.heard.erase(round);
  process.joined.erase(round);
  ++rounds_;
  if (mesh.history->size() == round) add_to_history(mesh, outcome);
  if (mesh.history->size() < round || (*mesh.history)[round] != outcome) {
    violated(text("round ", round, " of member ", number, " is not that of the others"));
  }
  process.results.push_back(std::move(outcome));
  if (averages()) take_average(number, process);
}

void CarriedRounds::add_to_history(Mesh& mesh, const Outcome& outcome) {
  for (const Deposit& deposit : outcome.deposits) {
    if (mesh.batches.insert(deposit.batch).second) continue;
    violated(text("batch ", deposit.batch, " is in two results of epoch ", mesh.view.epoch));
  }
  const std::uint64_t round = mesh.history->size();
  mesh.history->push_back(outcome);
  // An excluded member may go on for a while, in a history that nobody will know of.
  if (mesh.view.epoch >= published_in_ && round < published_.size() && published_[round] != outcome) {
    violated(text("round ", round, " of epoch ", mesh.view.epoch, " is not the one that was published"));
  }
}

void CarriedRounds::publish(const Process& process) {
  const std::uint64_t shown = shown_to_all(process);
  for (std::uint64_t round = 0; round < std::min<std::uint64_t>(shown, published_.size()); ++round) {
    if (published_[round] != process.results[round]) violated(text("round ", round, " was published otherwise"));
  }
  published_in_ = process.epoch;
  published_.assign(process.results.begin(), process.results.begin() + static_cast<std::ptrdiff_t>(shown));
}

void CarriedRounds::check_end(std::uint64_t epoch) {
  const auto found = meshes_.find(epoch);
  if (found == meshes_.end() || !found->second.history) return violated("the job has ended before it has begun");
  if (found->second.history->size() < published_.size()) violated("a round was published that the job does not have");
  for (std::uint64_t batch = 0; batch < options_.batches; ++batch) {
    if (!found->second.batches.contains(batch) && !dropped_.contains(batch)) {
      violated(text("batch ", batch, " is in no result"));
    }
  }
}

}  // namespace stretto
