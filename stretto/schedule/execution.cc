#include "stretto/schedule/execution.h"

#include <algorithm>
#include <cstddef>

#include "stretto/base/error.h"
#include "stretto/schedule/validate.h"

namespace stretto {

namespace {

constexpr Duration kUnit{1000};
constexpr std::size_t kNamed = 12;  // operations in a message

}  // namespace

Execution::Execution(std::span<const Schedule> schedules, int initiator) : schedules_(schedules) {
  for (const Schedule& schedule : schedules) {
    fates_.emplace_back(schedule.ops().size());
    partner_.emplace_back(schedule.ops().size());
  }
  for (const Message& m : messages_of(schedules)) {
    partner_[index(m.src)][m.send] = {m.dst, m.recv};
    partner_[index(m.dst)][m.recv] = {m.src, m.send};
  }

  for (int rank = 0; rank < static_cast<int>(schedules.size()); ++rank) {
    const auto ops = schedules[index(rank)].ops();
    for (OpId id = 0; id < ops.size(); ++id) {
      Fate& fate = fates_[index(rank)][id];
      if (ops[id].external && (initiator == kEveryRank || rank == initiator)) ++fate.counted;
      if (fate.counted == ops[id].need) fire(rank, id, Duration{0});
    }
  }
  while (!ends_.empty()) {
    const End end = ends_.top();
    ends_.pop();
    finish(end);
  }
}

void Execution::fire(int rank, OpId id, Duration now) {
  const Op& op = schedules_[index(rank)].op(id);
  Fate& fate = fates_[index(rank)][id];
  fate.fired = true;
  if (op.kind == OpKind::recv && !fate.arrived) return;
  ends_.push({now + (op.kind == OpKind::delay ? op.delay : kUnit), sequence_++, rank, id});
}

void Execution::finish(const End& end) {
  fates_[index(end.rank)][end.op].finished = true;
  const Schedule& schedule = schedules_[index(end.rank)];
  if (schedule.op(end.op).kind == OpKind::send) {
    const auto [peer, recv] = partner_[index(end.rank)][end.op];
    Fate& fate = fates_[index(peer)][recv];
    fate.arrived = true;
    if (fate.fired) fire(peer, recv, end.time);
  }
  for (const OpId next : schedule.successors(end.op)) {
    Fate& fate = fates_[index(end.rank)][next];
    if (fate.fired) continue;
    fate.required.push_back(end.op);
    if (++fate.counted == schedule.op(next).need) fire(end.rank, next, end.time);
  }
}

Execution::Place Execution::cause_of(const Place& place) const {
  const auto [rank, id] = place;
  if (fate(rank, id).fired) return partner_[index(rank)][id];  // a recv, for everything else that fires ends
  const Schedule& schedule = schedules_[index(rank)];
  for (OpId before = 0; before < schedule.ops().size(); ++before) {
    if (!fate(rank, before).finished && std::ranges::count(schedule.successors(before), id) > 0) return {rank, before};
  }
  return place;
}

std::string Execution::waiting_from(const Place& place) const {
  std::vector<Place> path{place};
  std::size_t again = 0;  // where in the path the cause of its last operation stands
  for (bool closed = false; !closed;) {
    const Place cause = cause_of(path.back());
    again = static_cast<std::size_t>(std::ranges::find(path, cause) - path.begin());
    closed = again < path.size();
    if (!closed) path.push_back(cause);
  }
  const bool lacks_trigger = again + 1 == path.size();
  // What leads to a circle waits for it, and tells nothing.
  if (!lacks_trigger) {
    path.push_back(path[again]);
    path.erase(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(again));
  }

  std::string out;
  for (std::size_t at = 0; at < std::min(path.size(), kNamed); ++at) {
    const auto [rank, op] = path[at];
    out += text(at == 0 ? "" : " waits for ", "rank ", rank, "'s ", describe(schedules_[index(rank)], op));
  }
  if (path.size() > kNamed) return text(out, ", and so on over ", path.size() - kNamed, " more");
  return lacks_trigger ? out + ", which waits for a trigger that nobody gives" : out;
}

void Execution::require_completion() const {
  for (const Schedule& schedule : schedules_) {
    if (fate(schedule.rank(), schedule.completion()).finished) continue;
    throw UsageError(text("schedule \"", schedule.name(), "\" cannot finish on rank ", schedule.rank(), ": ",
                          waiting_from({schedule.rank(), schedule.completion()})));
  }
}

}  // namespace stretto
