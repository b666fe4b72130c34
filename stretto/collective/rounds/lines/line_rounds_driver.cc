#include <algorithm>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/collective/rounds/lines/line_rounds.h"

// The calls by which LineRounds hears of time, of messages and of what its schedules do.

namespace stretto {
namespace {

/// So long a line master that says nothing is waited for.
constexpr Duration kSuspectedAfter = std::chrono::seconds(1);

}  // namespace

bool LineRounds::poll(TimePoint now) {
  if (!failure_.poll()) return false;
  if (is_alone()) {
    stopped_.store(stops_.load(std::memory_order_acquire), std::memory_order_release);
    return false;
  }
  if (stops_.load(std::memory_order_acquire)) {
    for (std::size_t i = 0; i < flights_.size(); ++i) {
      if (!flights_[i].second.over) end(flights_[i].first, flights_[i].second);
    }
    note_whether_stopped();
    return false;
  }
  end_what_is_taken();
  look_at_master(now);
  say_who_is_missing(now);
  tell([now](LineAgent& agent) { agent.look(now); });
  bool did = std::exchange(changed_, false);
  while (carry_on(now)) did = true;
  return did;
}

void LineRounds::note_whether_stopped() {
  if (stops_.load(std::memory_order_acquire) && flights_.empty()) stopped_.store(true, std::memory_order_release);
}

/// Does what is due in a round.
bool LineRounds::carry_on(TimePoint now) {
  for (auto& [round, flight] : flights_) {
    if (flight.over || flight.result == nullptr) continue;
    switch (flight.round.due(now)) {
      case LineRound::Due::nothing: continue;
      case LineRound::Due::reduce: average(round, flight); return true;
      case LineRound::Due::complete:
        conclude(round, flight, &GridCounts::completed);
        end_what_is_taken();
        return true;
    }
  }
  return false;
}

/// A line master that lets this node wait, and of whose process nothing comes, is another one's work from now on.
void LineRounds::look_at_master(TimePoint now) {
  std::vector<std::pair<int, bool>> heard;
  {
    const MutexLock lock(mutex_);
    const int master = agent_.line_master();
    const bool waits = master != own_ && agent_.in_flight() == 0 && now - waits_since_ >= kSuspectedAfter;
    if (waits && now - engine_.last_heard(members_[static_cast<std::size_t>(master)]) >= kSuspectedAfter) {
      heard.emplace_back(master, true);
    }
    for (int member = 0; member < master; ++member) {
      if (now - engine_.last_heard(members_[static_cast<std::size_t>(member)]) < kSuspectedAfter) {
        heard.emplace_back(member, false);
      }
    }
  }
  if (heard.empty()) return;
  tell([&heard](LineAgent& agent) {
    for (const auto& [member, suspected] : heard) agent.suspect(member, suspected);
  });
}

void LineRounds::say_who_is_missing(TimePoint now) {
  if (now < say_at_) return;
  say_at_ = now + kSilence;
  const MutexLock lock(mutex_);
  if (agent_.line_master() != own_) return;
  std::vector<std::string> line, names;
  const RankSet missing = this->missing();
  for (int member = 0; member < nodes(); ++member) {
    line.push_back(engine_.name_of(members_[static_cast<std::size_t>(member)]));
    if (missing.contains(member)) names.push_back(line.back());
  }
  if (names.empty() || missing.contains(own_)) return;
  line_ = text("the line of ", join(line), " in the grid has had no round for 10 s: it waits for ", join(names),
               "; training goes on");
}

/// In the round under way those of which a slice is missing, else those that have not applied the one before.
RankSet LineRounds::missing() const {
  const auto open = std::ranges::find_if(flights_, [](const auto& entry) { return !entry.second.round.is_complete(); });
  if (open == flights_.end()) return agent_.behind();
  const LineRound& round = open->second.round;
  const RankSet& there = round.is_reduced() ? round.means() : round.come();
  RankSet missing(nodes());
  for (int member = 0; member < nodes(); ++member) {
    if (!there.contains(member)) missing.insert(member);
  }
  return missing;
}

TimePoint LineRounds::poll_by() const {
  // Once it stops nothing of it is due at a time: rounds under way retire when their messages have left.
  if (failed() || is_alone() || stops_.load(std::memory_order_acquire)) return TimePoint::never();
  TimePoint by = say_at_;
  {
    const MutexLock lock(mutex_);
    by = std::min(by, agent_.look_by());
    if (agent_.line_master() != own_) by = std::min(by, engine_.clock().now() + kSuspectedAfter);
  }
  for (const auto& [round, flight] : flights_) {
    if (!flight.over) by = std::min(by, flight.round.due_by());
  }
  return by;
}

bool LineRounds::admit(Round round, const Envelope& envelope) {
  if (failed() || stops_.load(std::memory_order_acquire)) return false;
  std::optional<Round> taken;
  tell([&](LineAgent& agent) { taken = agent.admit(round); });
  const auto found = std::ranges::find(flights_, round, &std::pair<Round, Flight>::first);
  if (taken && found != flights_.end() && !found->second.over) return true;
  const MutexLock lock(mutex_);
  if (envelope.channel == 0) ++counts_.late;  // the first bucket of a contribution
  return false;
}

bool LineRounds::call(Round round, OpId op, std::uint32_t hook) {
  const LineHook what = LineHook::decode(hook);
  const TimePoint now = engine_.clock().now();
  Flight& here = flight(round);
  changed_ = true;
  switch (what.kind) {
    case LineHook::Kind::begin:
      if (here.over) return false;
      begin(round, here);
      break;
    case LineHook::Kind::way: return may_send(round, here, what.node, op);
    case LineHook::Kind::sent: sent(round, here, what.node); break;
    case LineHook::Kind::contribution: contributed(round, here, what.node, now); break;
    case LineHook::Kind::mean: {
      here.round.averaged(what.node, now);
      const MutexLock lock(mutex_);
      if (here.result->taken_) break;
      here.result->who[static_cast<std::size_t>(what.node)] = header(round, buffers_.mean_of(what.node, 0)).fresh;
    }
  }
  return true;
}

void LineRounds::contributed(Round round, Flight& flight, int member, TimePoint now) {
  const bool brings = header(round, buffers_.from(member, 0)).fresh.count() > 0;
  if (brings) {
    previous_.keep(member, [&](std::size_t i) { return engine_.buffer(id_, round, buffers_.from(member, i)).data; });
  }
  if (flight.round.contributed(member, brings, now)) return;
  const MutexLock lock(mutex_);
  ++counts_.late;
}

void LineRounds::retired(Round round) {
  LineResult* const result = flight(round).result;
  std::erase_if(flights_, [round](const auto& entry) { return entry.first == round; });
  note_whether_stopped();
  const MutexLock lock(mutex_);
  if (result != nullptr) --result->uses_;
}

bool LineRounds::hear(int peer, const Envelope& envelope, std::span<const std::byte>) {
  if (envelope.channel != kStart && envelope.channel != kComplete) return false;
  if (stops_.load(std::memory_order_acquire)) return true;
  const TimePoint now = engine_.clock().now();
  tell([&](LineAgent& agent) {
    if (envelope.channel == kStart) return agent.started(envelope.round);
    agent.peer_applied(number_of(peer), envelope.round, now);
  });
  return true;
}

std::size_t LineRounds::encode(int peer, std::uint16_t channel, std::span<const std::byte> body, std::byte* to) {
  const std::size_t bytes = codec_.encode(number_of(peer), channel, body, to);
  const MutexLock lock(mutex_);
  counts_.bytes_sent += bytes == 0 ? body.size() : bytes;
  return bytes;
}

bool LineRounds::decode(int peer, std::uint16_t channel, std::span<const std::byte> body, std::span<std::byte> to) {
  return codec_.decode(number_of(peer), channel, body, to);
}

void LineRounds::lost(int peer, const Error& reason) {
  if (!stops_.load(std::memory_order_acquire)) CollectiveBase::lost(peer, reason);
}

void LineRounds::left(int peer, const Error& reason) {
  lost(peer, reason);
}

}  // namespace stretto
