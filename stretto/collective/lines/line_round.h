#pragma once

#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/rank_set.h"
#include "stretto/collective/lines/line_options.h"

namespace stretto {

/// One round of a line on one of its nodes: which contributions the mean of its own slice has, and when the round is
/// complete there (docs/protocol.md, rules 22 and 23). Each node averages the slice of its number in the line, of what
/// the others send it, and sends all the mean. Pure: no memory, no clock.
class LineRound {
 public:
  enum class Due {
    nothing,
    reduce,    ///< average contributors(), and send that; then the caller says reduced()
    complete,  ///< the caller says completed()
  };

  /// The round opens; `brings`: this node contributes its model, and else nothing. The patience is for contributions,
  /// and for means. Requires: 0 ≤ own < members.
  LineRound(int own, int members, const LineOptions& options, Duration for_contributions, Duration for_means,
            bool brings, TimePoint now);

  /// The slice of another node has come, or its word that it brings nothing. False: it is late, and its data is
  /// dropped.
  [[nodiscard]] bool contributed(int member, bool brings, TimePoint now);
  /// The mean of another node's slice has come. It counts until the application takes the round.
  void averaged(int member, TimePoint now);

  Due due(TimePoint now) const;
  /// Latest time of the next due(), if nothing comes until then.
  TimePoint due_by() const;
  /// The first thing to do when a newer round ends this one: reduce, or complete at once.
  Due due_at_force() const;
  void reduced(TimePoint now);
  void completed() { is_complete_ = true; }

  /// Nodes whose slices have come in time, with what they bring.
  const RankSet& contributors() const { return brought_; }
  /// Nodes that have said in time what they bring, this one among them.
  const RankSet& come() const { return come_; }
  bool is_reduced() const { return is_reduced_; }
  bool is_complete() const { return is_complete_; }
  /// The slices whose means are here.
  const RankSet& means() const { return means_; }
  /// For LearnedPatience: when contributions and means came, also those that were late.
  const std::vector<TimePoint>& contributions_came() const { return contributions_came_; }
  const std::vector<TimePoint>& means_came() const { return means_came_; }

 private:
  bool may_reduce() const { return come_.count() >= reduce_needs_; }

  int own_;
  int reduce_needs_, complete_needs_;
  Duration for_contributions_, for_means_;
  TimePoint opened_, reduced_;
  RankSet come_, brought_, means_;
  bool is_reduced_ = false, is_complete_ = false;
  std::vector<TimePoint> contributions_came_, means_came_;
};

}  // namespace stretto
