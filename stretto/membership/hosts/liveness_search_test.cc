#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/membership/hosts/liveness_rule.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using Action = LivenessRule::Action;
using Fact = LivenessFact;

constexpr std::uint64_t kSeeds = 1500;  // 60,000 were tried
constexpr Duration kAskEvery = 50ms;
constexpr Duration kLongestDelay = 60ms;

std::vector<int> draw_hosts(Random& random) {
  const auto hosts = static_cast<int>(random.between(2, 9));
  std::vector<int> host_of;
  for (int host = 0; host < hosts; ++host) host_of.insert(host_of.end(), random.below(3) + 1, host);
  return host_of;
}

/// Hosts in virtual time, each with its rule, and with faults that are drawn from a seed. A network that loses nothing
/// while a link works, and keeps what is sent over a cut one until it is mended; kernels that acknowledge.
class Network {
 public:
  explicit Network(std::uint64_t seed) : random_(seed, 1), members_(draw_hosts(random_)) {
    limit_ = std::chrono::seconds(random_.between(1, 10));
    for (int host = 0; host < hosts(); ++host) hosts_.emplace_back(members_, host, limit_);
    begin_ = Duration(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(limit_.count()))));
    draw_faults();
  }

  /// What is wrong; empty: nothing.
  std::string run() {
    const Duration end = begin_ + 5 * limit_ + std::chrono::seconds(5);
    for (now_ = 0ms; now_ < end && wrong_.empty(); now_ += kAskEvery) {
      begin_faults();
      for (int host = 0; host < hosts(); ++host) {
        if (runs(host)) ask(host);  // one that has stood still before it reads
      }
      deliver();
      check_in_time();
    }
    return wrong_;
  }

  /// How many faults of each kind there were.
  std::map<std::string, int> reached;

 private:
  enum class Fault { none, dies, ends, cut, mended, stands, leaves };
  struct HostState {
    HostState(const Members& members, int host, Duration limit) : rule(members, host, limit, TimePoint{}) {}
    LivenessRule rule;
    bool dead = false, left = false;
    Duration stands_until{0};
    std::set<std::string> marked;
  };
  struct Message {
    Duration at;
    bool beat;
    Fact fact;
  };
  using Edge = std::pair<int, int>;

  int hosts() const { return members_.hosts(); }
  HostState& of(int host) { return hosts_[static_cast<std::size_t>(host)]; }
  bool lives(int host) { return !of(host).dead && !of(host).left; }
  bool runs(int host) { return lives(host) && now_ >= of(host).stands_until; }
  Duration cut_until(int a, int b) const {
    const auto found = cuts_.find(std::minmax(a, b));
    return found == cuts_.end() ? Duration(0) : found->second;
  }
  bool works(int a, int b) const { return now_ >= cut_until(a, b); }
  int draw_host() { return static_cast<int>(random_.below(static_cast<std::uint64_t>(hosts()))); }

  void draw_faults() {
    const int number = random_.chance(0.3) ? 2 : 1;
    for (int i = 0; i < number; ++i) {
      faults_.push_back({begin_ + i * kLongestDelay, static_cast<Fault>(random_.below(7))});
    }
  }
  void begin_faults() {
    while (!faults_.empty() && now_ >= faults_.front().first) {
      begin(faults_.front().second);
      faults_.erase(faults_.begin());
    }
  }
  void begin(Fault fault) {
    const int host = draw_host();
    if (!lives(host)) return;
    switch (fault) {
      case Fault::none: break;
      case Fault::dies:
        of(host).dead = true;
        to_notice(limit_);
        break;
      case Fault::ends: {
        const int rank = members_.on(host).front();
        if (members_.on(host).size() == 1 || !runs(host)) return;
        ended_.insert(rank);
        of(host).rule.learn({Fact::Kind::ended, rank, 0, "as drawn"}, -1, {now_});
        to_notice(0ms);
        break;
      }
      case Fault::cut:
      case Fault::mended: {
        const std::vector<int> others = LivenessRule::neighbours(hosts(), host);
        const int other = others[random_.below(others.size())];
        if (!lives(other)) return;
        const bool ever = fault == Fault::cut;
        cuts_[std::minmax(host, other)] = ever ? Duration::max() : now_ + limit_ / 3;
        if (ever) to_notice(limit_), cut_.insert(std::minmax(host, other));
        break;
      }
      case Fault::stands: of(host).stands_until = now_ + 3 * limit_; break;
      case Fault::leaves:
        if (!runs(host) || !cuts_.empty()) return;
        for (const int rank : members_.on(host)) of(host).rule.learn({Fact::Kind::left, rank}, -1, {now_});
        ask(host);
        of(host).left = true;
        break;
    }
    ++reached[std::to_string(static_cast<int>(fault))];
  }
  /// Something has happened that all must have noticed after so long, and the rule's own time.
  void to_notice(Duration after) {
    const Duration own =
        std::max<Duration>(limit_ / 20, 500ms) + limit_ / 5 + (hosts() + 1) * (kLongestDelay + kAskEvery);
    notice_by_ = std::min(notice_by_, now_ + after + own);
  }

  void send(int from, int to, bool beat, const Fact& fact) {
    if (beat && random_.chance(0.02)) return;  // late, until the next
    Duration& last = last_[{from, to}];
    const Duration delay(
        static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(Duration(kLongestDelay).count()))));
    last = std::max(last, now_ + delay);
    queues_[{from, to}].push_back({last, beat, fact});
  }
  void deliver() {
    for (auto& [edge, queue] : queues_) {
      const auto [from, to] = edge;
      if (of(to).dead || of(to).left) queue.clear();
      if (of(from).dead && !works(from, to)) queue.clear();
      while (!queue.empty() && now_ >= queue.front().at && works(from, to)) {
        if (lives(from)) hear(from, to);  // the kernel acknowledges, whatever its processes do
        if (!runs(to)) {
          if (waiting_[edge].size() < 10'000) waiting_[edge].push_back(queue.front());
        } else {
          take(from, to, queue.front());
        }
        queue.pop_front();
      }
      for (; runs(to) && !waiting_[edge].empty(); waiting_[edge].pop_front()) take(from, to, waiting_[edge].front());
    }
  }
  void hear(int host, int of_host) {
    if (runs(host)) of(host).rule.heard(of_host, {now_});
  }
  void take(int from, int to, const Message& message) {
    of(to).rule.heard(from, {now_});
    if (!message.beat) of(to).rule.learn(message.fact, from, {now_});
  }

  void ask(int host) {
    while (const auto action = of(host).rule.next({now_})) {
      const Fact& fact = action->fact;
      switch (action->kind) {
        case Action::Kind::beat: send(host, action->host, true, {}); break;
        case Action::Kind::tell:
          if (!told_.insert({host, action->host, static_cast<int>(fact.kind), fact.a, fact.b}).second) {
            wrong_ = text("host ", host, " tells host ", action->host, " twice");
          }
          send(host, action->host, false, fact);
          break;
        case Action::Kind::ended:
          if (!ended_.contains(fact.a)) wrong_ = text("rank ", fact.a, " has not ended");
          mark(host, text("ended ", fact.a));
          break;
        case Action::Kind::silent:
          // With two hosts, or two cuts, a host that nobody reaches is as good as dead.
          if (!of(action->host).dead && !is_unreachable(action->host, host)) {
            wrong_ = text("host ", action->host, " lives, and is lost for host ", host);
          }
          mark(host, text("silent ", action->host));
          break;
        case Action::Kind::cut:
          if (!cut_.contains(std::minmax(fact.a, fact.b))) {
            wrong_ = text("the link between ", fact.a, " and ", fact.b, " is not cut");
          }
          mark(host, text("cut ", fact.a, ' ', fact.b));
          break;
      }
    }
  }
  void mark(int host, const std::string& what) { of(host).marked.insert(what); }

  /// Whether no host that runs can tell `by` that it hears `host`.
  bool is_unreachable(int host, int by) {
    std::set<int> reached{by};
    for (std::vector<int> todo{by}; !todo.empty();) {
      const int at = todo.back();
      todo.pop_back();
      for (const int next : LivenessRule::neighbours(hosts(), at)) {
        if (cut_.contains(std::minmax(at, next)) || !runs(next) || next == host || !reached.insert(next).second)
          continue;
        todo.push_back(next);
      }
    }
    return std::ranges::none_of(LivenessRule::neighbours(hosts(), host), [&](int next) {
      return reached.contains(next) && !cut_.contains(std::minmax(host, next));
    });
  }
  void check_in_time() {
    if (now_ < notice_by_) return;
    notice_by_ = Duration::max();
    if (held_up()) return;
    for (int host = 0; host < hosts(); ++host) {
      const bool alone = std::ranges::none_of(LivenessRule::neighbours(hosts(), host), [&](int next) {
        return runs(next) && !cut_.contains(std::minmax(host, next));
      });
      if (runs(host) && !alone && of(host).marked.empty()) {
        wrong_ = text("host ", host, " has noticed nothing");
      }
    }
  }
  /// Whether news may have waited for a host that stood still, or for a link that came back.
  bool held_up() {
    return std::ranges::any_of(hosts_, [](const HostState& host) { return host.stands_until > 0ms; }) ||
           std::ranges::any_of(cuts_, [](const auto& cut) { return cut.second != Duration::max(); });
  }

  Random random_;
  const Members members_;
  Duration limit_{0}, begin_{0}, now_{0}, notice_by_ = Duration::max();
  std::vector<HostState> hosts_;
  std::vector<std::pair<Duration, Fault>> faults_;
  std::map<Edge, Duration> cuts_;
  std::set<Edge> cut_;  // for ever
  std::set<int> ended_;
  std::map<Edge, Duration> last_;
  std::map<Edge, std::deque<Message>> queues_, waiting_;
  std::set<std::vector<int>> told_;
  std::string wrong_;
};

TEST(LivenessSearch, NobodyWhoLivesIsLostAndWhoIsLostIsNamedEverywhere) {
  std::map<std::string, int> reached;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Network network(seed);
    ASSERT_EQ(network.run(), "") << "seed " << seed;
    for (const auto& [fault, number] : network.reached) reached[fault] += number;
  }
  for (int fault = 0; fault < 7; ++fault) EXPECT_GT(reached[std::to_string(fault)], 100) << fault;
}

}  // namespace
}  // namespace stretto
