// Who is lost, for three hosts: every state that they can reach, by every order of what happens between two looks.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/check/liveness/failing_hosts.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

constexpr Duration kShortLimit = 2s;
constexpr Duration kTick = kShortLimit / 5;  // two beats

struct Happening {
  std::string name;
  std::function<void(FailingHosts&)> happen;
};

/// The states of some hosts in time that goes by ticks. In a tick each process looks once; then come, in any order, the
/// words that are on their way, a sign of life over each connection, and faults; and when all but the faults have come,
/// the next tick.
class States {
 public:
  /// The order in which signs of life come within a tick.
  enum class Signs { any_order, in_order, at_once };
  struct Extent {
    int faults;
    Signs signs;
  };
  States(const Members& members, Extent extent) : members_(members), extent_(extent) {}

  /// How many there are; breadth first, so that a violation has the shortest way.
  std::size_t search() {
    FailingHosts begin(members_, kShortLimit, kTick);
    for (int tick = 0; tick < 2; ++tick) start(begin);
    add({begin, 0, 0, {}});
    while (!frontier_.empty() && wrong.empty()) {
      std::vector<State> last = std::exchange(frontier_, {});
      for (const State& state : last) go_on_from(state);
      ++depth;
    }
    return seen_.size();
  }

  std::string wrong;
  int depth = 0;
  std::size_t transitions = 0;

 private:
  struct State {
    FailingHosts hosts;
    int faults;
    std::uint32_t came;  // signs of life, in this tick
    std::string way;
  };
  struct Hash {
    std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& print) const { return print.first; }
  };

  int hosts() const { return members_.hosts(); }
  void look_all(FailingHosts& hosts) const {
    for (int rank = 0; rank < members_.size(); ++rank) hosts.look(rank);
    hosts.take_sent();
  }
  void start(FailingHosts& hosts) const {
    hosts.advance(kTick);
    look_all(hosts);
    come_all(hosts);
  }
  void come_all(FailingHosts& hosts) const {
    for (int edge = 0; edge < hosts.hosts() * hosts.hosts(); ++edge) come(hosts, edge);
  }
  /// A sign of life from one host to another: its beat, where one of its ranks speaks, else an acknowledgement.
  void come(FailingHosts& hosts, int edge) const {
    const int from = edge / this->hosts(), to = edge % this->hosts();
    if (from == to || !hosts.is_there(from)) return;
    if (hosts.speaker(from) >= 0) hosts.beat(from, to);
    if (hosts.speaker(from) < 0 && hosts.speaker(to) >= 0) hosts.acknowledge(from, to);
  }
  bool can_come(const FailingHosts& hosts, int edge) const {
    const int from = edge / this->hosts(), to = edge % this->hosts();
    return from != to && hosts.is_connected(from, to) && hosts.works(from, to) && hosts.is_there(from) &&
           hosts.is_there(to);
  }

  void add(State state) {
    if (!state.hosts.wrong().empty()) {
      if (wrong.empty()) wrong = text(state.hosts.wrong(), state.way);
      return;
    }
    auto print = state.hosts.fingerprint();
    print.first ^= (static_cast<std::uint64_t>(state.faults) << 32 | state.came) * 0x9e3779b97f4a7c15;
    if (seen_.insert(print).second) frontier_.push_back(std::move(state));
  }
  template <class Happen>
  void then(const State& state, const std::string& name, Happen happen) {
    ++transitions;
    State next = state;
    happen(next);
    next.hosts.take_sent();
    if (!name.empty()) next.way += text("; ", name);
    add(std::move(next));
  }

  void go_on_from(const State& state) {
    bool waits = false;
    for (int edge = 0; edge < hosts() * hosts(); ++edge) {
      if (!state.hosts.has_word(edge / hosts(), edge % hosts())) continue;
      waits = true;
      then(state, "", [&](State& next) { next.hosts.deliver(edge / hosts(), edge % hosts()); });
    }
    for (int edge = 0; edge < hosts() * hosts() && extent_.signs != Signs::at_once; ++edge) {
      if ((state.came >> edge & 1) != 0 || !can_come(state.hosts, edge)) continue;
      waits = true;
      then(state, "", [&](State& next) {
        next.came |= 1u << edge;
        come(next.hosts, edge);
      });
      if (extent_.signs == Signs::in_order) break;
    }
    if (state.faults < extent_.faults) add_faults(state);
    if (waits) return;
    then(state, "", [&](State& next) {
      next.came = 0;
      next.hosts.advance(kTick);
      look_all(next.hosts);
      if (extent_.signs == Signs::at_once) come_all(next.hosts);
    });
  }

  void add_faults(const State& state) {
    const auto fault = [&](const std::string& name, auto happen) {
      then(state, text(to_text(state.hosts.now().since_start), ": ", name), [&](State& next) {
        ++next.faults;
        happen(next.hosts);
      });
    };
    for (int host = 0; host < hosts(); ++host) {
      if (!state.hosts.is_there(host)) continue;
      fault(text("host ", host, " dies"), [&](FailingHosts& next) { next.die(host); });
      for (int other = 0; other < hosts(); ++other) {
        if (host == other) continue;
        if (state.hosts.works(host, other)) {
          fault(text("cut ", host, "→", other), [&](FailingHosts& next) { next.cut(host, other); });
        } else {
          fault(text("mended ", host, "→", other), [&](FailingHosts& next) { next.mend(host, other); });
        }
        if (other < host) continue;
        fault(text("cut ", host, "–", other), [&](FailingHosts& next) {
          next.cut(host, other);
          next.cut(other, host);
        });
        fault(text("disconnected ", host, "–", other), [&](FailingHosts& next) { next.disconnect(host, other); });
      }
    }
    for (int rank = 0; rank < members_.size(); ++rank) {
      if (!state.hosts.runs(rank)) {
        fault(text("rank ", rank, " goes on"), [&](FailingHosts& next) { next.go_on(rank); });
        continue;
      }
      fault(text("rank ", rank, " ends"), [&](FailingHosts& next) { next.end(rank); });
      fault(text("rank ", rank, " stands still"), [&](FailingHosts& next) { next.stop(rank); });
    }
  }

  const Members members_;
  const Extent extent_;
  std::unordered_set<std::pair<std::uint64_t, std::uint64_t>, Hash> seen_;
  std::vector<State> frontier_;
};

void expect_right(const std::vector<int>& host_of, States::Extent extent, std::size_t number) {
  States states(Members(host_of), extent);
  EXPECT_EQ(states.search(), number) << states.transitions << " transitions, depth " << states.depth;
  EXPECT_EQ(states.wrong, "");
}

TEST(LivenessStates, OneFaultAmongSignsOfLifeInAnyOrder) {
  expect_right({0, 1, 2}, {.faults = 1, .signs = States::Signs::any_order}, 83'852);
}

TEST(LivenessStates, OneFaultOfHostsOfUpToTwoRanks) {
  expect_right({0, 0, 1, 2}, {.faults = 1, .signs = States::Signs::in_order}, 18'736);
  expect_right({0, 0, 1, 1, 2}, {.faults = 1, .signs = States::Signs::in_order}, 20'777);
  expect_right({0, 0, 1, 1, 2, 2}, {.faults = 1, .signs = States::Signs::in_order}, 22'576);
}

TEST(LivenessStates, TwoFaults) {
  expect_right({0, 1, 2}, {.faults = 2, .signs = States::Signs::at_once}, 125'126);
}

}  // namespace
}  // namespace stretto
