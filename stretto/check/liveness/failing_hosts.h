#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/membership/hosts/liveness/liveness_rule.h"
#include "stretto/membership/hosts/liveness/news.h"
#include "stretto/membership/hosts/liveness/turn.h"

namespace stretto {

/// The hosts of a job while ranks, hosts and links fail. The rules by which a host finds out who is lost are the real
/// ones (membership/hosts/): which rank speaks, what it learns and tells, what it leaves in its host's memory.
/// Processes, kernels and the network are simulated; the caller decides what happens next. After each event it is
/// checked that
///
/// - no host says that it has not heard another one within the limit when it has;
/// - no host is lost that is there, while a host that hears it could have said so;
/// - no rank is said to have ended that has not, and no link to be cut that never was;
/// - a speaker tells nothing twice over a connection; and two that are connected know the same when no word is on its
///   way between them;
/// - what a host's memory says of the first loss, and of each, stays;
/// - a while after the last fault every host where a rank speaks has somebody who is lost, if one is.
///
/// A copy shares with the original the hosts that neither has changed since.
class FailingHosts {
 public:
  /// `hop`: the longest time from the sending of a word until it has been read.
  FailingHosts(const Members& members, Duration limit, Duration hop);

  const Members& members() const { return members_; }
  int hosts() const { return members_.hosts(); }
  TimePoint now() const { return now_; }
  /// The first violation; empty: none.
  const std::string& wrong() const { return wrong_; }
  /// How many words have been sent.
  std::uint64_t words_sent() const { return words_sent_; }

  // Time, and the network.
  void advance(Duration by);
  /// A process that runs looks what there is to do, as each does twenty times a second.
  void look(int rank);
  /// Whether `to` can read a word of `from`; it does so, in the order of sending.
  bool has_word(int from, int to) const;
  void deliver(int from, int to);
  /// A beat of `from` comes to `to`, if there is a connection that works and somebody speaks.
  void beat(int from, int to);
  /// The kernel of `from` acknowledges a beat of `to`, if there is a connection that works.
  void acknowledge(int from, int to);
  /// Words and beats that have been sent since the last call: from, to, whether it is a beat.
  struct Sending {
    int from, to;
    bool beat;
  };
  std::vector<Sending> take_sent() { return std::exchange(sent_, {}); }

  // The state of things.
  bool runs(int rank) const;      ///< its process is there, and does not stand still
  bool is_there(int host) const;  ///< it is up, and has a process, be it one that stands still
  int speaker(int host) const;    ///< the rank that speaks and runs; −1: none
  bool works(int from, int to) const { return !link(from, to).cut; }
  bool is_connected(int a, int b) const { return link(a, b).connected; }
  bool is_steady(int host) const;  ///< all of its ranks run, and none has ever stood still

  // Faults. A process that has ended neither ends again nor stands still.
  void die(int host);   ///< the machine
  void end(int rank);   ///< its process
  void stop(int rank);  ///< its process stands still
  void go_on(int rank);
  void leave(int host);           ///< all of its ranks, in order. Requires: nothing else has failed
  void cut(int from, int to);     ///< nothing comes from `from` to `to`, be it acknowledgements
  void mend(int from, int to);    ///< what was sent comes
  void disconnect(int a, int b);  ///< the connection ends, the link works

  /// 128 bits of all that can happen from here on depends on: equal ones have the same future.
  std::pair<std::uint64_t, std::uint64_t> fingerprint() const;

 private:
  struct Process {
    enum class Is { running, still, ended, left };
    Is is = Is::running;
    SpeakersTurn turn;
    std::optional<LivenessRule> rule = {};
  };
  struct Site {
    std::vector<Process> processes;  // by place
    std::vector<std::byte> memory;   // of HostNews
    std::vector<TimePoint> came;     // by host: the last sign of life that its kernel has got
    std::vector<bool> accused;       // by host: it has said that nothing has come
    std::vector<Error> lost;         // as its memory said last
    bool dead = false, has_stood = false;
  };
  struct Link {
    bool cut = false, ever_cut = false;
    bool connected = false;           // the same in both directions
    std::vector<LivenessFact> words;  // on their way
    std::set<LivenessFact> told;      // over this connection
  };

  const Site& site(int host) const { return *sites_[static_cast<std::size_t>(host)]; }
  Site& change(int host);
  std::size_t place(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(hosts()) + static_cast<std::size_t>(to);
  }
  const Link& link(int from, int to) const { return links_[place(from, to)]; }
  Link& link(int from, int to) { return links_[place(from, to)]; }
  const Process& process(int rank) const;
  Process& change_process(int rank);
  HostNews news(Site& site) const { return {site.memory, members_.size()}; }
  bool all_gone(int host) const;
  int last_speaker(int host) const;  // whose turn it is, be it that it stands still or has ended; −1: nobody's yet
  static bool is_gone(const Process& process) {
    return process.is == Process::Is::ended || process.is == Process::Is::left;
  }
  LivenessFact end_of(int rank) const { return {LivenessFact::Kind::ended, rank, 0, text("rank ", rank, " ended")}; }

  void begin_to_speak(int rank);
  void stop_speaking(int rank);
  void look_at_own(int rank);
  void reach(int host, int other);
  void drop_connections(int host);
  void connection_ends(int rank, int at);
  void act(int host);
  void learn(int host, const LivenessFact& fact, int by);
  void come(int from, int to);
  void changed(bool disturbs);
  void forget_unsent(int from, int to);

  void tell(int host, const LivenessRule::Action& action);
  void mark_lost(int host, const LivenessRule::Action& action);
  void check_accusations(int host);
  void check_knowledge(int a, int b);
  void check_noticed();
  bool is_heard_around(int host, int by) const;
  bool is_something_lost(int host) const;
  void violated(const std::string& what);

  const Members members_;
  const Duration limit_, hop_;
  std::vector<std::string> names_;
  TimePoint now_{}, changed_{};  // the last fault, or the end of one
  bool disturbed_ = false;       // somebody has stood still, or a link has come back
  std::vector<std::shared_ptr<Site>> sites_;
  std::vector<Link> links_;  // from · hosts + to
  std::vector<bool> named_;  // by rank: lost in the words of a host, and rightly
  std::vector<Sending> sent_;
  std::uint64_t words_sent_ = 0;
  std::string wrong_;
};

}  // namespace stretto
