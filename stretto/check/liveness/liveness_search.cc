#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/check/harness/searches.h"
#include "stretto/check/liveness/failing_hosts.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kLivenessStream = 0x6c6976656e657373;
constexpr Duration kLookEvery = 50ms;
constexpr Duration kLongestDelay = 60ms;
constexpr double kLateBeat = 0.02;  // probability that the next one overtakes it

/// Indices into kLivenessReaches.
enum class Reached { dies, ends, all_end, cut, cut_one_way, mended, stands, deputy, disconnected, leaves, second };

Members draw_members(Random& random, int ranks) {
  const auto most = static_cast<std::int64_t>(ranks > 0 ? ranks : 15);
  const auto hosts = static_cast<int>(
      random.chance(0.1) ? random.between(std::min<std::int64_t>(most, 6), std::min<std::int64_t>(most, 9))
                         : random.between(1, std::min<std::int64_t>(most, 5)));
  std::vector<int> host_of;
  for (int host = 0; host < hosts; ++host) {
    host_of.insert(host_of.end(), ranks > 0 ? 1 : random.below(3) + 1, host);
  }
  while (static_cast<int>(host_of.size()) < ranks) {
    host_of.push_back(static_cast<int>(random.below(static_cast<std::uint64_t>(hosts))));
  }
  if (random.chance(0.5)) shuffle(host_of, Random(random.bits()));
  return Members(host_of);
}

/// Hosts whose processes look twenty times a second, in any order, and a network that delays; with faults that are
/// drawn from the seed.
class LivenessJob {
 public:
  LivenessJob(std::uint64_t seed, const JobLimits& limits, JobFinding& finding)
      : random_(seed, kLivenessStream),
        finding_(finding),
        limit_(std::chrono::seconds(random_.between(1, 10))),
        hosts_(draw_members(random_, limits.ranks), limit_, kLongestDelay + kLookEvery) {
    for (int rank = 0; rank < hosts_.members().size(); ++rank) ranks_.push_back(rank);
    std::string sizes;
    for (int host = 0; host < hosts_.hosts(); ++host) {
      sizes += text(host == 0 ? "" : "+", hosts_.members().on(host).size());
    }
    finding_.job = text("hosts of ", sizes, " ranks, lost after ", to_text(limit_));
  }

  void run() {
    draw_faults();
    // Then everybody has noticed what there is to notice, and nobody else is lost.
    const Duration after = 2 * limit_ + limit_ + 6s;
    while (hosts_.wrong().empty() && (!faults_.empty() || hosts_.now() - last_fault_ < after)) {
      hosts_.advance(kLookEvery);
      begin_faults();
      shuffle(ranks_, Random(random_.bits()));
      for (const int rank : ranks_) {
        hosts_.look(rank);
        send();
      }
      arrive();
    }
    finding_.rounds = static_cast<std::uint64_t>(hosts_.now().since_start / (limit_ / 10));
    finding_.messages = hosts_.words_sent();
    if (!hosts_.wrong().empty()) finding_.violated(hosts_.wrong());
  }

 private:
  struct Arrival {
    TimePoint at;
    FailingHosts::Sending what;
  };

  const Members& members() const { return hosts_.members(); }
  int draw(int below) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(below))); }
  void reach(Reached what, const std::string& in_words) {
    ++finding_.reached[static_cast<std::size_t>(what)];
    note(in_words);
  }
  void note(const std::string& fault) { finding_.job += text("; ", to_text(hosts_.now().since_start), ": ", fault); }
  void at(TimePoint when, std::function<void()> fault) { faults_.emplace(when, std::move(fault)); }
  Duration draw_time(Duration below) {
    return Duration(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(below.count()))));
  }

  /// One fault, or two or three: the next while the news of the one before are on their way, when its verdict is near,
  /// or at any time.
  void draw_faults() {
    TimePoint when{500ms + draw_time(limit_)};  // all are connected
    for (int number = random_.chance(0.5) ? 1 : static_cast<int>(random_.between(2, 3)); number > 0; --number) {
      at(when, [this] { begin_fault(); });
      const Duration gaps[] = {draw_time(2 * kLongestDelay), limit_ + draw_time(1s), draw_time(2 * limit_)};
      when = when + gaps[draw(3)];
    }
  }
  void begin_faults() {
    while (!faults_.empty() && hosts_.now() >= faults_.begin()->first) {
      const auto fault = std::move(faults_.begin()->second);
      faults_.erase(faults_.begin());
      fault();
      last_fault_ = hosts_.now();
      send();
    }
  }
  void begin_fault() {
    const int host = draw(hosts_.hosts());
    if (!hosts_.is_there(host)) return;
    if (std::exchange(faulty_, true)) ++finding_.reached[static_cast<std::size_t>(Reached::second)];
    switch (draw(8)) {
      case 0: hosts_.die(host); return reach(Reached::dies, text("host ", host, " dies"));
      case 1: return end(draw_rank(host));
      case 2:
        for (const int rank : members().on(host)) hosts_.end(rank);
        return reach(Reached::all_end, text("the ranks of host ", host, " end"));
      case 3:
      case 4: return cut(host);
      case 5: return stand(host);
      case 6: return disconnect(host);
      default: return leave(host);
    }
  }
  int draw_rank(int host) {
    const auto on = members().on(host);
    return on[random_.below(on.size())];
  }
  void end(int rank) {
    hosts_.end(rank);
    reach(Reached::ends, text("rank ", rank, " ends"));
  }
  int draw_neighbour(int host) {
    const std::vector<int> others = LivenessRule::neighbours(hosts_.hosts(), host);
    return others.empty() ? -1 : others[random_.below(others.size())];
  }
  void cut(int host) {
    const int other = draw_neighbour(host);
    if (other < 0) return;
    const bool one_way = random_.chance(0.3);
    hosts_.cut(host, other);
    if (!one_way) hosts_.cut(other, host);
    reach(one_way ? Reached::cut_one_way : Reached::cut,
          text("the link ", host, one_way ? " → " : " – ", other, " is cut"));
    if (random_.chance(0.6)) return;
    at(hosts_.now() + (random_.chance(0.5) ? limit_ / 3 : draw_time(2 * limit_)), [this, host, other] {
      hosts_.mend(host, other);
      hosts_.mend(other, host);
      reach(Reached::mended, text("the link ", host, " – ", other, " is mended"));
    });
  }
  /// The rank that speaks, another one, or all of them.
  void stand(int host) {
    std::vector<int> ranks{random_.chance(0.7) ? hosts_.speaker(host) : draw_rank(host)};
    if (random_.chance(0.4)) ranks.assign(members().on(host).begin(), members().on(host).end());
    const bool ever = random_.chance(0.3);
    const TimePoint until = hosts_.now() + draw_time(3 * limit_);
    for (const int rank : ranks) {
      if (rank < 0 || !hosts_.runs(rank)) continue;
      hosts_.stop(rank);
      note(text("rank ", rank, " of host ", host, " stands still"));
      if (ever) continue;
      at(until, [this, rank] {
        note(text("rank ", rank, " goes on"));
        hosts_.go_on(rank);
      });
    }
    const bool all = std::ranges::none_of(members().on(host), [&](int rank) { return hosts_.runs(rank); });
    ++finding_.reached[static_cast<std::size_t>(all ? Reached::stands : Reached::deputy)];
  }
  void disconnect(int host) {
    const int other = draw_neighbour(host);
    if (other < 0) return;
    hosts_.disconnect(host, other);
    reach(Reached::disconnected, text("the connection ", host, " – ", other, " ends"));
  }
  /// In order, where nothing else has failed.
  void leave(int host) {
    for (int other = 0; other < hosts_.hosts(); ++other) {
      if (!hosts_.is_steady(other) || hosts_.speaker(other) < 0) return;
      for (const int next : LivenessRule::neighbours(hosts_.hosts(), other)) {
        if (!hosts_.works(other, next) || !hosts_.is_connected(other, next)) return;
      }
    }
    hosts_.leave(host);
    reach(Reached::leaves, text("host ", host, " leaves"));
  }

  /// What has been sent comes after a delay, words of a connection in order.
  void send() {
    for (const auto& sending : hosts_.take_sent()) {
      if (sending.beat && random_.chance(kLateBeat)) continue;
      TimePoint& last = last_[{sending.from, sending.to}];
      last = std::max(last, hosts_.now() + draw_time(kLongestDelay));
      arrivals_.emplace(last, sending);
    }
  }
  void arrive() {
    while (!arrivals_.empty() && hosts_.now() >= arrivals_.begin()->first) {
      const FailingHosts::Sending sending = arrivals_.begin()->second;
      arrivals_.erase(arrivals_.begin());
      if (sending.beat) {
        hosts_.beat(sending.from, sending.to);
        if (hosts_.works(sending.from, sending.to)) hosts_.acknowledge(sending.to, sending.from);
      } else if (hosts_.has_word(sending.from, sending.to)) {
        hosts_.deliver(sending.from, sending.to);
        send();
      } else {
        waiting_.insert({sending.from, sending.to});
      }
    }
    read_what_waits();
  }
  /// Words that came over a link when it was mended, or lay unread while nobody spoke.
  void read_what_waits() {
    for (auto edge = waiting_.begin(); edge != waiting_.end();) {
      const auto [from, to] = *edge;
      const bool reads = hosts_.works(from, to) && (hosts_.speaker(to) >= 0 || !hosts_.is_there(to));
      while (hosts_.has_word(from, to)) {
        hosts_.deliver(from, to);
        send();
      }
      edge = reads ? waiting_.erase(edge) : std::next(edge);
    }
  }

  Random random_;
  JobFinding& finding_;
  const Duration limit_;
  FailingHosts hosts_;
  std::vector<int> ranks_;
  std::multimap<TimePoint, std::function<void()>> faults_;
  TimePoint last_fault_;
  bool faulty_ = false;
  std::map<std::pair<int, int>, TimePoint> last_;
  std::multimap<TimePoint, FailingHosts::Sending> arrivals_;
  std::set<std::pair<int, int>> waiting_;
};

}  // namespace

void run_liveness_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  LivenessJob(seed, limits, finding).run();
}

}  // namespace stretto
