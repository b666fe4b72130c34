#include "stretto/check/liveness/failing_hosts.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "stretto/membership/hosts/liveness/marks.h"

namespace stretto {
namespace {

using Kind = LivenessFact::Kind;

constexpr int kLateBeats = 3;     // of ten in the limit: so many may be late
constexpr int kBeatsOfGrace = 6;  // a host that has stood still says nothing for so long
constexpr int kDeputies = 3;      // who may have to stand in one after the other, a second each
constexpr Duration kDeputyAfter = std::chrono::milliseconds(1100);
constexpr Duration kVerdict = std::chrono::milliseconds(500);

}  // namespace

FailingHosts::FailingHosts(const Members& members, Duration limit, Duration hop)
    : members_(members),
      limit_(limit),
      hop_(hop),
      links_(static_cast<std::size_t>(members.hosts() * members.hosts())),
      named_(static_cast<std::size_t>(members.size())) {
  const auto hosts = static_cast<std::size_t>(members.hosts());
  for (int rank = 0; rank < members.size(); ++rank) names_.push_back(text('h', members.host_of(rank)));
  for (int host = 0; host < members.hosts(); ++host) {
    auto site = std::make_shared<Site>();
    for (const int rank : members.on(host)) {
      site->processes.push_back({.turn = SpeakersTurn(members.place_of(rank), now_)});
    }
    site->memory.resize(HostNews::bytes_needed(members.size()));
    site->came.resize(hosts);
    site->accused.resize(hosts);
    sites_.push_back(std::move(site));
  }
}

FailingHosts::Site& FailingHosts::change(int host) {
  std::shared_ptr<Site>& site = sites_[static_cast<std::size_t>(host)];
  if (site.use_count() > 1) site = std::make_shared<Site>(*site);
  return *site;
}

const FailingHosts::Process& FailingHosts::process(int rank) const {
  return site(members_.host_of(rank)).processes[static_cast<std::size_t>(members_.place_of(rank))];
}

FailingHosts::Process& FailingHosts::change_process(int rank) {
  return change(members_.host_of(rank)).processes[static_cast<std::size_t>(members_.place_of(rank))];
}

bool FailingHosts::runs(int rank) const {
  return process(rank).is == Process::Is::running && !site(members_.host_of(rank)).dead;
}

bool FailingHosts::all_gone(int host) const {
  return std::ranges::all_of(site(host).processes, is_gone);
}

bool FailingHosts::is_there(int host) const {
  return !site(host).dead && !all_gone(host);
}

int FailingHosts::last_speaker(int host) const {
  Site& site = *sites_[static_cast<std::size_t>(host)];
  const int place = SpeakersTurn::speaks(news(site).beat().load());
  return place < 0 ? -1 : members_.on(host)[static_cast<std::size_t>(place)];
}

int FailingHosts::speaker(int host) const {
  const int rank = last_speaker(host);
  return rank >= 0 && process(rank).rule && runs(rank) ? rank : -1;
}

bool FailingHosts::is_steady(int host) const {
  return !site(host).has_stood && std::ranges::all_of(members_.on(host), [&](int rank) { return runs(rank); });
}

void FailingHosts::violated(const std::string& what) {
  if (wrong_.empty()) wrong_ = text("after ", to_text(now_.since_start), ": ", what);
}

void FailingHosts::advance(Duration by) {
  now_ = now_ + by;
  check_noticed();
}

void FailingHosts::look(int rank) {
  if (!runs(rank)) return;
  const int host = members_.host_of(rank);
  Site& site = change(host);
  Process& process = site.processes[static_cast<std::size_t>(members_.place_of(rank))];
  const auto gone = [&](int place) { return is_gone(site.processes[static_cast<std::size_t>(place)]); };
  if (!process.turn.is_mine(news(site).beat(), gone, now_)) return stop_speaking(rank);
  begin_to_speak(rank);
  look_at_own(rank);
  act(host);
}

void FailingHosts::begin_to_speak(int rank) {
  Process& process = change_process(rank);
  if (process.rule) return;
  const int host = members_.host_of(rank);
  process.rule.emplace(members_, host, limit_, now_);
  take_up(news(change(host)), members_, *process.rule, now_);
  drop_connections(host);
}

/// Its connections end; where a deputy speaks these are not the ones that are written to.
void FailingHosts::stop_speaking(int rank) {
  if (!process(rank).rule) return;
  change_process(rank).rule.reset();
  for (const int other : LivenessRule::neighbours(hosts(), members_.host_of(rank))) connection_ends(rank, other);
}

void FailingHosts::drop_connections(int host) {
  for (const int other : LivenessRule::neighbours(hosts(), host)) {
    for (Link* one : {&link(host, other), &link(other, host)}) {
      one->connected = false;
      one->words.clear();
      one->told.clear();
    }
  }
}

void FailingHosts::connection_ends(int rank, int at) {
  if (speaker(at) < 0 || !works(members_.host_of(rank), at)) return;
  if (const auto end = end_by_line(rank, {Errc::lost_peer, "it has ended", rank})) learn(at, *end, -1);
}

void FailingHosts::look_at_own(int rank) {
  const int host = members_.host_of(rank);
  for (const int own : members_.on(host)) {
    if (process(own).is == Process::Is::left) learn(host, {Kind::left, own}, -1);
    if (process(own).is == Process::Is::ended) learn(host, end_of(own), -1);
  }
  for (const int other : LivenessRule::neighbours(hosts(), host)) {
    LivenessRule& rule = *change_process(rank).rule;
    // The kernel knows of what has come while the process stood still.
    if (is_connected(host, other)) rule.acknowledged(other, site(host).came[static_cast<std::size_t>(other)]);
    if (rule.lives(other) && (!is_connected(host, other) || rule.is_late(other, now_))) reach(host, other);
  }
}

/// Connects to the rank that speaks there. A host that is up refuses where it has no process, and else its kernel takes
/// the connection, whether anybody speaks or not.
void FailingHosts::reach(int host, int other) {
  if (!works(host, other) || !works(other, host) || site(other).dead) return;
  if (all_gone(other)) {
    for (const int rank : members_.on(other)) {
      if (!process(speaker(host)).rule->is_gone(rank)) learn(host, end_of(rank), -1);
    }
  }
  if (speaker(other) < 0 && !all_gone(other)) {
    come(other, host);
    change_process(speaker(host)).rule->acknowledged(other, now_);
  }
  if (speaker(other) < 0) return;
  for (const auto& [from, to] : {std::pair(host, other), std::pair(other, host)}) {
    link(from, to).connected = true;
    link(from, to).told.clear();
    change_process(speaker(from)).rule->connected(to, now_);
  }
  act(host);
  act(other);
}

void FailingHosts::learn(int host, const LivenessFact& fact, int by) {
  Site& site = change(host);
  HostNews news = this->news(site);
  learn_and_keep(fact, by, news, *change_process(speaker(host)).rule, now_);
}

void FailingHosts::act(int host) {
  const int rank = speaker(host);
  if (rank < 0) return;
  using Do = LivenessRule::Action::Kind;
  LivenessRule& rule = *change_process(rank).rule;
  while (const auto action = rule.next(now_)) {
    if (action->kind == Do::tell) {
      tell(host, *action);
    } else if (action->kind != Do::beat) {
      mark_lost(host, *action);
    } else if (is_connected(host, action->host)) {
      sent_.push_back({host, action->host, true});
    }
  }
  check_accusations(host);
}

void FailingHosts::tell(int host, const LivenessRule::Action& action) {
  Link& to = link(host, action.host);
  if (!to.connected) return;
  if (!to.told.insert(action.fact).second) violated(text("host ", host, " tells host ", action.host, " twice"));
  to.words.push_back(action.fact);
  ++words_sent_;
  sent_.push_back({host, action.host, false});
}

bool FailingHosts::has_word(int from, int to) const {
  return !link(from, to).words.empty() && works(from, to) && speaker(to) >= 0;
}

void FailingHosts::deliver(int from, int to) {
  const LivenessFact fact = link(from, to).words.front();
  link(from, to).words.erase(link(from, to).words.begin());
  beat(from, to);
  learn(to, fact, from);
  act(to);
  check_knowledge(from, to);
}

void FailingHosts::come(int from, int to) {
  change(to).came[static_cast<std::size_t>(from)] = now_;
}

void FailingHosts::beat(int from, int to) {
  if (!is_connected(from, to) || !works(from, to) || site(to).dead) return;
  come(from, to);
  if (const int rank = speaker(to); rank >= 0) change_process(rank).rule->heard(from, now_);
}

void FailingHosts::acknowledge(int from, int to) {
  if (!is_connected(from, to) || !works(from, to) || site(from).dead || site(to).dead) return;
  come(from, to);
  if (const int rank = speaker(to); rank >= 0) change_process(rank).rule->acknowledged(from, now_);
}

void FailingHosts::changed(bool disturbs) {
  changed_ = now_;
  disturbed_ |= disturbs;
}

void FailingHosts::die(int host) {
  change(host).dead = true;
  for (const int other : LivenessRule::neighbours(hosts(), host)) forget_unsent(host, other);
  changed(false);
}

void FailingHosts::end(int rank) {
  if (is_gone(process(rank))) return;
  const int host = members_.host_of(rank);
  const bool spoke = last_speaker(host) == rank;
  change_process(rank).is = Process::Is::ended;
  change_process(rank).rule.reset();
  if (spoke) drop_connections(host);
  for (const int other : LivenessRule::neighbours(hosts(), host)) {
    if (spoke) connection_ends(rank, other);
  }
  changed(spoke);
}

void FailingHosts::stop(int rank) {
  if (process(rank).is != Process::Is::running) return;
  change_process(rank).is = Process::Is::still;
  change(members_.host_of(rank)).has_stood = true;
  changed(true);
}

void FailingHosts::go_on(int rank) {
  if (process(rank).is != Process::Is::still) return;
  change_process(rank).is = Process::Is::running;
  changed(true);
  look(rank);
}

void FailingHosts::leave(int host) {
  const int rank = speaker(host);
  for (const int own : members_.on(host)) learn(host, {Kind::left, own}, -1);
  act(host);
  for (const int own : members_.on(host)) change_process(own).is = Process::Is::left;
  change_process(rank).rule.reset();
  for (const int other : LivenessRule::neighbours(hosts(), host)) {  // it waits until they have read it
    while (has_word(host, other)) deliver(host, other);
  }
  changed(false);
}

/// A kernel sends over a link that comes back what it could not, unless it is gone.
void FailingHosts::forget_unsent(int from, int to) {
  if (site(from).dead && !works(from, to)) link(from, to).words.clear();
}

void FailingHosts::cut(int from, int to) {
  link(from, to).cut = link(from, to).ever_cut = true;
  if (!is_connected(from, to)) link(to, from).ever_cut = true;  // nor do they connect
  forget_unsent(from, to);
  changed(false);
}

void FailingHosts::mend(int from, int to) {
  link(from, to).cut = false;
  changed(true);
}

void FailingHosts::disconnect(int a, int b) {
  if (!is_connected(a, b) || speaker(a) < 0 || speaker(b) < 0) return;
  const int ranks[] = {speaker(a), speaker(b)};
  for (Link* one : {&link(a, b), &link(b, a)}) {
    one->connected = false;
    one->words.clear();
    one->told.clear();
    one->ever_cut |= !works(a, b) || !works(b, a);  // nor do they connect again
  }
  connection_ends(ranks[0], b);
  connection_ends(ranks[1], a);
  changed(true);
}

void FailingHosts::mark_lost(int host, const LivenessRule::Action& action) {
  using Do = LivenessRule::Action::Kind;
  const LivenessFact& fact = action.fact;
  if (action.kind == Do::ended) {
    if (process(fact.a).is != Process::Is::ended && !named_[static_cast<std::size_t>(fact.a)]) {
      violated(text("host ", host, " says that rank ", fact.a, " has ended"));
    }
  } else {
    if (action.kind == Do::silent && is_there(action.host) && is_heard_around(action.host, host)) {
      violated(text("host ", action.host, " is there, and lost for host ", host));
    }
    if (action.kind == Do::cut && !link(fact.a, fact.b).ever_cut && !link(fact.b, fact.a).ever_cut) {
      violated(text("host ", host, " says that the link between hosts ", fact.a, " and ", fact.b, " is cut"));
    }
    for (const int rank : members_.on(action.host)) named_[static_cast<std::size_t>(rank)] = true;
  }
  Site& site = change(host);
  HostNews news = this->news(site);
  mark(action, *process(speaker(host)).rule, members_, host, names_, limit_, news);
  std::vector<Error> lost = news.all_lost();
  for (std::size_t i = 0; i < site.lost.size(); ++i) {
    const Error& was = site.lost[i];
    if (i < lost.size() && lost[i].rank == was.rank && lost[i].message == was.message) continue;
    violated(text("the memory of host ", host, " says no longer: ", was.message));
  }
  site.lost = std::move(lost);
}

/// Whether a host that hears `host`, or `by` itself, can tell `by` so: hosts that have never stood still, over links
/// that have never been cut. A host sends nothing to one that is lost for it, and a new speaker, or one that
/// begins anew, connects over links that work both ways.
bool FailingHosts::is_heard_around(int host, int by) const {
  const auto sends_to = [&](int at) {
    if (link(host, at).ever_cut || (link(at, host).ever_cut && !(is_steady(host) && is_steady(at)))) return false;
    return speaker(host) < 0 || process(speaker(host)).rule->lives(at);
  };
  std::set<int> reached{by};
  for (std::vector<int> todo{by}; !todo.empty();) {
    const int at = todo.back();
    todo.pop_back();
    for (const int next : LivenessRule::neighbours(hosts(), at)) {
      const bool ever_cut = link(at, next).ever_cut || link(next, at).ever_cut;
      if (next == host && sends_to(at)) return true;
      if (next != host && !ever_cut && is_steady(next) && reached.insert(next).second) todo.push_back(next);
    }
  }
  return false;
}

void FailingHosts::check_accusations(int host) {
  for (const int other : LivenessRule::neighbours(hosts(), host)) {
    const auto index = static_cast<std::size_t>(other);
    if (site(host).accused[index] || !process(speaker(host)).rule->knows(Kind::unheard, host, other)) continue;
    change(host).accused[index] = true;
    const Duration silent = now_ - site(host).came[index];
    if (silent < limit_) {
      violated(text("host ", host, " has heard nothing of host ", other, ", which it has ", to_text(silent), " ago"));
    }
  }
}

void FailingHosts::check_knowledge(int a, int b) {
  if (!is_connected(a, b) || speaker(a) < 0 || speaker(b) < 0) return;
  if (!link(a, b).words.empty() || !link(b, a).words.empty()) return;
  if (process(speaker(a)).rule->facts() == process(speaker(b)).rule->facts()) return;
  violated(text("hosts ", a, " and ", b, " do not know the same, and no word is on its way"));
}

/// Whether somebody is lost of whom the ranks of `host` must hear.
bool FailingHosts::is_something_lost(int host) const {
  const auto fails = [&](int from, int to) { return !works(from, to) && is_there(from) && is_there(to); };
  for (int other = 0; other < hosts(); ++other) {
    const auto& there = site(other).processes;
    const bool left = std::ranges::all_of(there, [](const Process& one) { return one.is == Process::Is::left; });
    const bool ended = std::ranges::any_of(there, [](const Process& one) { return one.is == Process::Is::ended; });
    if (other != host && ((site(other).dead && !left) || ended)) return true;
    for (const int next : LivenessRule::neighbours(hosts(), other)) {
      if (fails(other, next)) return true;
    }
  }
  return false;
}

void FailingHosts::check_noticed() {
  Duration by = limit_ * (10 + kLateBeats) / 10 + std::max<Duration>(limit_ / 20, kVerdict) + (hosts() + 1) * hop_;
  if (disturbed_) by += limit_ * kBeatsOfGrace / 10 + kDeputies * kDeputyAfter;
  if (now_ - changed_ <= by) return;
  for (int host = 0; host < hosts(); ++host) {
    if (is_there(host) && speaker(host) < 0) {
      if (std::ranges::any_of(members_.on(host), [&](int rank) { return runs(rank); })) {
        violated(text("nobody speaks for host ", host));
      }
      return;  // where nobody can, no news have to come
    }
  }
  for (int host = 0; host < hosts(); ++host) {
    if (speaker(host) >= 0 && site(host).lost.empty() && is_something_lost(host)) {
      violated(text("host ", host, " has noticed nothing within ", to_text(now_ - changed_)));
    }
  }
}

std::pair<std::uint64_t, std::uint64_t> FailingHosts::fingerprint() const {
  std::vector<std::int64_t> words;
  const auto put = [&](auto number) { words.push_back(static_cast<std::int64_t>(number)); };
  const auto put_facts = [&](const auto& facts) {
    put(facts.size());
    for (const LivenessFact& fact : facts) put((static_cast<int>(fact.kind) * 1024 + fact.a) * 1024 + fact.b);
  };
  for (const auto& site : sites_) {
    const std::uint64_t word = news(*site).beat().load();
    put(SpeakersTurn::speaks(word) * 4 + site->dead * 2 + site->has_stood);
    for (const Process& process : site->processes) {
      put(static_cast<int>(process.is) * 2 + process.rule.has_value());
      put(std::min<Duration>(process.turn.unchanged(word, now_), kDeputies * kDeputyAfter).count());
      if (process.rule) process.rule->describe(words, now_);
    }
    for (const TimePoint came : site->came) put(std::min(now_ - came, limit_).count());
    for (const bool accused : site->accused) put(accused);
    put(site->lost.size());
    for (const Error& why : site->lost) put(why.rank), put(std::hash<std::string>()(why.message));
    for (int rank = 0; rank < members_.size(); ++rank) put(news(*site).has_left(rank));
  }
  for (const Link& link : links_) {
    put(link.cut * 4 + link.ever_cut * 2 + link.connected);
    put_facts(link.words);
    put_facts(link.told);
  }
  for (const bool named : named_) put(named);
  put(std::min<Duration>(now_ - changed_, 3 * limit_ + kDeputies * kDeputyAfter).count() * 2 + disturbed_);
  const XXH128_hash_t hash = XXH3_128bits(words.data(), words.size() * sizeof words.front());
  return {hash.low64, hash.high64};
}

}  // namespace stretto
