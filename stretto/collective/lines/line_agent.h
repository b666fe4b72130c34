#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/rank_set.h"
#include "stretto/collective/lines/line_options.h"
#include "stretto/collective/protocol/policy.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// A node's part of one line of a grid: which rounds it opens with what, when it ends them, and what it tells the *line
/// master*, the first node of the line that it does not suspect, or does as that (docs/protocol.md, Lines of a grid,
/// rules 20, 21, 26 and 27). Within a round LineRound decides, or a schedule made like it. Nobody waits for an agent.
/// Pure: no thread, transport, clock or memory of models; calls come one at a time, and after each the caller does what
/// take_actions() says, in order.
///
/// A round costs p − 1 words START and p − 1 words COMPLETE a line, beside its data.
class LineAgent {
 public:
  struct Action {
    enum class Kind : std::uint8_t {
      force,     ///< end `round` as it is, since a newer one opens, and say completed()
      drop,      ///< `round` is complete, and the application will not take it: too many newer ones are
      open,      ///< `round`, and bring to it the model of `version`, or 0: a header alone
      start,     ///< tell all others START(round)
      complete,  ///< tell `to` COMPLETE: all rounds before `round` have been applied here
    };
    Kind kind;
    Round round = 0;
    std::uint64_t version = 0;
    int to = -1;
  };

  /// `own`: the number of this node in its line of `members`. Requires: options.require().
  LineAgent(int own, int members, const LineOptions& options);

  /// START(round) has come.
  void started(Round round);
  /// Data of a round has come. Returns the round it belongs to, which may have opened by this; nothing: it is late.
  std::optional<Round> admit(Round round);
  /// An open round is complete, and waits for the application.
  void completed(Round round);

  /// Whether take() would return some.
  bool may_take() const { return !here_.empty() && here_.begin()->second.complete; }
  /// At a step boundary: the rounds that the application applies now, ascending. What comes for them later is late.
  std::vector<Round> take();
  /// After that: it has applied what it has taken, and `version` of its model is the newest. Versions count from 1, and
  /// change where the model has. 0: it has no model yet.
  void applied(std::uint64_t version);

  /// COMPLETE has come: `member` has applied all rounds before `before`.
  void peer_applied(int member, Round before, TimePoint now);
  /// Whether a member is believed to be gone. It is asked again when it is heard after all.
  void suspect(int member, bool suspected);
  /// Nothing is on its way to a member any more: words to it that were left out meanwhile are said now.
  void reached(int member);
  /// Time goes on.
  void look(TimePoint now);
  /// Latest time of the next look().
  TimePoint look_by() const { return look_by_; }
  /// When contributions and means of a round came that has been taken.
  void learn(const std::vector<TimePoint>& contributions, const std::vector<TimePoint>& means);

  std::vector<Action> take_actions() { return std::exchange(actions_, {}); }

  int own() const { return own_; }
  int members() const { return static_cast<int>(suspected_.size()); }
  int line_master() const;
  /// The first round that has not been opened, f.
  Round next() const { return next_; }
  /// All rounds before this one have been applied, or skipped.
  Round applied_before() const { return applied_before_; }
  /// On the line master: the members that have not applied all rounds so far, as it has heard.
  RankSet behind() const;
  /// Rounds that are open, and not complete or forced.
  int in_flight() const;
  /// Whether a contribution has not been applied.
  bool owes() const;
  Duration patience_for_contributions() const { return patience(for_contributions_); }
  Duration patience_for_means() const { return patience(for_means_); }

 private:
  struct Here {
    bool contributes = false, forced = false, complete = false, taken = false;
    bool is_over() const { return forced || complete; }
  };

  void open(Round round);
  void drop_untaken();
  void say_complete();
  std::uint64_t contribution() const;
  Round applied_by(int members) const;
  Duration patience(const LearnedPatience& learned) const {
    return options_.adaptive ? learned.get() : options_.patience;
  }

  const int own_;
  const LineOptions options_;
  RankSet suspected_;
  Round next_ = 0, applied_before_ = 0;
  std::map<Round, Here> here_;                  // opened and not applied
  std::uint64_t newest_ = 0, contributed_ = 0;  // versions
  std::vector<Action> actions_;
  LearnedPatience for_contributions_, for_means_, for_completes_;

  // The line master's.
  std::vector<Round> said_;           // by member: COMPLETE
  Round started_ = 0;                 // rounds before this one have been started, or need not be
  std::vector<TimePoint> say_times_;  // of COMPLETEs that the next START waits for
  std::optional<TimePoint> enough_since_;
  TimePoint look_by_ = TimePoint::never();
};

}  // namespace stretto
