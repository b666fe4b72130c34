#include "stretto/membership/hosts/liveness/liveness_rule.h"

#include <algorithm>

#include "stretto/base/defect.h"

namespace stretto {
namespace {

using Kind = LivenessFact::Kind;

constexpr int kBeatsInLimit = 10;
constexpr int kRecentBeats = 3;
constexpr Duration kShortestVerdict = std::chrono::milliseconds(500);

}  // namespace

std::vector<int> LivenessRule::neighbours(int hosts, int host) {
  std::set<int> found;
  for (int step = 1; step < hosts; step *= 2) {
    found.insert((host + step) % hosts);
    found.insert((host + hosts - step) % hosts);
  }
  found.erase(host);
  return {found.begin(), found.end()};
}

LivenessRule::LivenessRule(const Members& members, int host, Duration limit, TimePoint now)
    : members_(members),
      host_(host),
      limit_(limit),
      beat_(limit / kBeatsInLimit),
      verdict_(defect(Defect::verdict_at_once) ? Duration(0) : std::max(beat_ / 2, kShortestVerdict)),
      asked_(now) {
  for (const int neighbour : neighbours(members.hosts(), host)) edges_[neighbour].beat_at = now;
  begin_anew(now);
}

bool LivenessRule::lives(int host) const {
  return !silent_.contains(host) && std::ranges::any_of(members_.on(host), [&](int rank) { return !is_gone(rank); });
}

void LivenessRule::connected(int neighbour, TimePoint now) {
  Edge& edge = edges_.at(neighbour);
  edge.known.clear();
  edge.beat_at = now;
}

void LivenessRule::heard(int neighbour, TimePoint when) {
  const auto edge = edges_.find(neighbour);
  if (edge != edges_.end()) edge->second.heard = std::max(edge->second.heard, when);
}

void LivenessRule::acknowledged(int neighbour, TimePoint when) {
  if (!defect(Defect::acknowledgement_not_counted)) heard(neighbour, when);
}

void LivenessRule::learn(const LivenessFact& fact, int by, TimePoint now) {
  if (const auto edge = edges_.find(by); edge != edges_.end()) edge->second.known.insert(fact);
  if (!facts_.insert(fact).second) return;
  switch (fact.kind) {
    case Kind::left: break;
    case Kind::ended:
      if (!knows(Kind::left, fact.a)) todo_.push_back({Action::Kind::ended, members_.host_of(fact.a), fact});
      break;
    case Kind::unheard:
      if (lives(fact.b)) verdicts_.emplace(fact.b, std::max(now, knows_from_) + verdict_);
      answer(fact, now);
      break;
    case Kind::cut:
      verdicts_.erase(fact.a);  // it has said that it hears nothing
      verdicts_.erase(fact.b);
      // Those of the other side, seen from one of the two; else those of the host that is unheard.
      todo_.push_back({Action::Kind::cut, fact.b == host_ ? fact.a : fact.b, fact});
      break;
  }
}

/// Says that a host which another one does not hear is there, where this host has just heard it, or is it.
void LivenessRule::answer(const LivenessFact& unheard, TimePoint now) {
  if (defect(Defect::cut_not_seen)) return;
  if (unheard.a == host_ || !lives(unheard.b) || (unheard.b != host_ && !hears(unheard.b, now))) return;
  learn({Kind::cut, unheard.a, unheard.b}, -1, now);
}

bool LivenessRule::hears(int neighbour, TimePoint now) const {
  return edges_.contains(neighbour) && now >= knows_from_ && !is_late(neighbour, now);
}

bool LivenessRule::is_late(int neighbour, TimePoint now) const {
  return now - edges_.at(neighbour).heard >= kRecentBeats * beat_;
}

void LivenessRule::look_at_edges(TimePoint now) {
  for (auto& [neighbour, edge] : edges_) {
    if (!lives(neighbour)) continue;
    if (now >= edge.beat_at) {
      edge.beat_at = now + beat_;
      todo_.push_back({Action::Kind::beat, neighbour, {}});
    }
    const Duration limit = defect(Defect::slow_host_is_lost) ? kRecentBeats * beat_ : limit_;
    if (now - edge.heard >= limit) learn({Kind::unheard, host_, neighbour}, -1, now);
  }
}

/// What was sent before lies unread, and will look as if it had come now.
void LivenessRule::begin_anew(TimePoint now) {
  knows_from_ = now + 2 * kRecentBeats * beat_;
  for (auto& [neighbour, edge] : edges_) edge.heard = now;
  for (auto& [host, when] : verdicts_) when = knows_from_ + verdict_;
}

/// The verdict about a host that others do not hear: it is lost, unless this host hears it after all, or is it.
void LivenessRule::pronounce(int host, TimePoint now) {
  if (!lives(host)) return;
  if (host == host_ || hears(host, now)) {
    for (int other = 0; other < members_.hosts(); ++other) {
      if (knows(Kind::unheard, other, host)) answer({Kind::unheard, other, host}, now);
    }
    return;
  }
  silent_.insert(host);
  todo_.push_back({Action::Kind::silent, host, {}});
}

std::optional<LivenessRule::Action> LivenessRule::next(TimePoint now) {
  if (now - asked_ > kRecentBeats * beat_ && !defect(Defect::accuses_after_standing_still)) begin_anew(now);
  asked_ = now;
  look_at_edges(now);
  for (int host = 0; host < members_.hosts(); ++host) {
    const auto due = verdicts_.find(host);
    if (due == verdicts_.end() || now < due->second) continue;
    verdicts_.erase(due);
    pronounce(host, now);
  }
  if (!todo_.empty()) {
    const Action action = todo_.front();
    todo_.pop_front();
    return action;
  }
  for (auto& [neighbour, edge] : edges_) {
    for (const LivenessFact& fact : facts_) {
      if (edge.known.insert(fact).second) return Action{Action::Kind::tell, neighbour, fact};
    }
  }
  return std::nullopt;
}

void LivenessRule::describe(std::vector<std::int64_t>& words, TimePoint now) const {
  const auto put = [&](const LivenessFact& fact) {
    words.push_back((static_cast<int>(fact.kind) * 1024 + fact.a) * 1024 + fact.b);
  };
  const auto left = [&](TimePoint when) { words.push_back(std::max<Duration>(when - now, Duration(0)).count()); };
  words.push_back(std::min<Duration>(now - asked_, kRecentBeats * beat_ + Duration(1)).count());
  left(knows_from_);
  for (const auto& [neighbour, edge] : edges_) {
    words.push_back(std::min<Duration>(now - edge.heard, limit_).count());
    left(edge.beat_at);
    words.push_back(static_cast<std::int64_t>(edge.known.size()));
    for (const LivenessFact& fact : edge.known) put(fact);
  }
  words.push_back(static_cast<std::int64_t>(facts_.size()));
  for (const LivenessFact& fact : facts_) put(fact);
  for (int host = 0; host < members_.hosts(); ++host) {
    const auto due = verdicts_.find(host);
    words.push_back(silent_.contains(host) ? -2 : -1);
    if (due != verdicts_.end()) left(due->second);
  }
  for (const Action& action : todo_) {
    words.push_back(static_cast<int>(action.kind) * 1024 + action.host);
    put(action.fact);
  }
}

}  // namespace stretto
