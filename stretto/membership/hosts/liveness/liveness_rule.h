#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/transport/members.h"

namespace stretto {

/// Something about ranks and hosts that one host tells the others, and that never becomes untrue.
struct LivenessFact {
  enum class Kind : std::uint8_t {
    left,     ///< rank `a` has said goodbye
    ended,    ///< rank `a` has ended without one
    unheard,  ///< host `a` has heard nothing of host `b` for the limit
    cut,      ///< a host hears host `b`, which is unheard by host `a`
  };
  Kind kind = Kind::left;
  int a = 0, b = 0;
  // Of a rank that has ended, and no part of the comparison.
  std::string why = {};  ///< in words
  bool aborted = false;  ///< the rank has said why by itself

  friend auto operator<=>(const LivenessFact& x, const LivenessFact& y) {
    return std::tuple(x.kind, x.a, x.b) <=> std::tuple(y.kind, y.a, y.b);
  }
  friend bool operator==(const LivenessFact& x, const LivenessFact& y) { return (x <=> y) == 0; }
};

/// The knowledge of one host about which others live: from what it hears follows whom it tells, and who is lost. Pure:
/// neither socket nor thread nor clock.
///
/// Hosts have edges to some others. On each a beat goes out every tenth of the limit. A host lives as long as its
/// beats come or its kernel acknowledges ours: a process that stands still is never lost. A host of which neither has
/// come for the limit is unheard, and the others are told. One that has heard it within the last three beats says that
/// the link is cut: the host is dead for as long as the limit, or it is not, and then it was heard a beat ago. Where
/// nobody has said so within the verdict's time the host is lost.
///
/// A host whose own process has stood still knows nothing of that time: it begins anew, and says nothing of others
/// for six beats.
///
/// Each fact goes over each edge once in a direction, and not back to the host that told it.
class LivenessRule {
 public:
  /// The hosts to which a host has edges: those 1, 2, 4, … before and after it, as in a circle.
  static std::vector<int> neighbours(int hosts, int host);

  /// `host`: this one. `limit`: of silence.
  LivenessRule(const Members& members, int host, Duration limit, TimePoint now);

  /// The edge to a neighbour is new: all that is known goes over it once more.
  void connected(int neighbour, TimePoint now);
  /// A neighbour's beat has come: at `when`.
  void heard(int neighbour, TimePoint when);
  /// A neighbour's kernel has acknowledged a beat: at `when`, whatever its processes do.
  void acknowledged(int neighbour, TimePoint when);
  /// A fact, told by a neighbour, or found here (−1).
  void learn(const LivenessFact& fact, int by, TimePoint now);

  /// A thing to do.
  struct Action {
    enum class Kind : std::uint8_t {
      beat,    ///< send a beat to `host`
      tell,    ///< send `fact` to `host`
      ended,   ///< mark the rank of `fact` as lost
      silent,  ///< mark all ranks of `host` as lost
      cut,     ///< mark the ranks of `host` as lost: hosts fact.a and fact.b do not reach each other
    };
    Kind kind = Kind::beat;
    int host = 0;
    LivenessFact fact = {};
  };
  /// The next thing to do; nothing: no more at `now`. Asked again within a fraction of a beat.
  std::optional<Action> next(TimePoint now);

  /// Whether the neighbour has been heard within the last three beats, as far as this host can tell.
  bool hears(int neighbour, TimePoint now) const;
  /// Whether nothing has come from it for three beats: its connection may no longer work.
  bool is_late(int neighbour, TimePoint now) const;
  /// Whether any rank of the host may still be there.
  bool lives(int host) const;
  bool is_gone(int rank) const {
    return knows(LivenessFact::Kind::left, rank) || knows(LivenessFact::Kind::ended, rank);
  }
  bool knows(LivenessFact::Kind kind, int a, int b = 0) const { return facts_.contains({kind, a, b}); }
  const std::set<LivenessFact>& facts() const { return facts_; }

  /// Puts behind `words` all that what it does from `now` on depends on: rules with equal words will do the same.
  void describe(std::vector<std::int64_t>& words, TimePoint now) const;

 private:
  struct Edge {
    TimePoint heard, beat_at;
    std::set<LivenessFact> known;  // there, as far as this host has told or been told
  };

  void begin_anew(TimePoint now);
  void look_at_edges(TimePoint now);
  void answer(const LivenessFact& unheard, TimePoint now);
  void pronounce(int host, TimePoint now);

  const Members members_;
  const int host_;
  const Duration limit_, beat_, verdict_;
  TimePoint knows_from_;               // what it hears is new
  TimePoint asked_;                    // next() was, last
  std::map<int, Edge> edges_;          // by neighbour
  std::set<LivenessFact> facts_;       // all that are known
  std::map<int, TimePoint> verdicts_;  // by host: lost then, unless a link is cut
  std::set<int> silent_;               // hosts that are lost
  std::deque<Action> todo_;
};

}  // namespace stretto
