#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/membership/views/member_words.h"
#include "stretto/membership/views/register.h"

namespace stretto {

struct MasterOptions {
  std::size_t least = 1;                    ///< members; fewer are waited for
  std::size_t most = 64;                    ///< members; more wait as spares
  Duration wait = std::chrono::minutes(5);  ///< for members or the register, before the job is given up
  /// For members in the places of those that leave, where too few would be left, before the job is given up.
  Duration wait_to_leave = std::chrono::minutes(5);
  Duration wait_for_last = std::chrono::seconds(10);  ///< the same, at most, where all leave
  Duration gather = Duration(0);             ///< from the last that has come, so that one view takes several in
  std::size_t first = 64;                    ///< so many are not waited for any longer, in the first view
  Duration gather_more = Duration(0);        ///< the same, at most, once the job is under way
  Duration again = std::chrono::seconds(1);  ///< between two questions to a register that does not answer
  /// A member that does not move while others wait in a call for so long is excluded. Zero: never.
  Duration evict = Duration(0);
};

/// A thing that a master wants done.
struct MasterAction {
  enum class Kind : std::uint8_t {
    read,    ///< the register; answered by Master::read()
    commit,  ///< content->view, whose position the caller fills in; answered by Master::committed()
    end,     ///< the job, in the register; answered by Master::ended()
    freeze,  ///< tell `to`: FREEZE(epoch)
    tell,    ///< tell `to` the content of the register
    kill,    ///< the process `to`, where it is on a host of the caller's: the others go on without it
    refuse,  ///< tell `to` that it does not fit, in words
    say,     ///< `words` to a person
  };
  Kind kind = Kind::read;
  MemberNumber to = 0;
  std::uint64_t epoch = 0;                         ///< of a freeze or an end
  JobEnd how = JobEnd::none;                       ///< of an end
  std::shared_ptr<const Registered> content = {};  ///< to tell or to commit; null of others
  BatchesApplied applied = {};                     ///< of a commit: in the rounds that count, for the pool
  std::string words = {};                          ///< of a refusal; of an end: why, for a person to read; to say

  /// One with these alone.
  static MasterAction of(Kind kind, MemberNumber to = 0, std::uint64_t epoch = 0) {
    MasterAction action;
    action.kind = kind;
    action.to = to;
    action.epoch = epoch;
    return action;
  }
};

/// Proposes views to a register. It lives outside of the job's members, and decides nothing by itself: of several that
/// run at a time each may propose, and any may be lost at any point. It holds nothing that another one must know:
/// members say to each master how they stand. Pure: no thread, clock or socket. Calls come one at a time; after each
/// the caller does what take_actions() says.
///
/// A change costs 2 messages to each member and its answer, and one write to the register; one that nobody is lost for,
/// a read before, without which members would stand still where the register is away.
class Master {
 public:
  enum class Phase : std::uint8_t {
    reading,   ///< the register
    away,      ///< the register does not answer
    watching,  ///< nothing is to be changed
    freezing,  ///< the members stop, and say what they hold
    writing,   ///< to the register
    over,      ///< the job
  };

  /// The master begins by reading the register. `now`: of the clock of tick().
  Master(MasterOptions options, TimePoint now);

  /// Answers to what it wants of the register. A commit's answer comes with the view as it was written. `why`: it is
  /// unknown, for a line to a person.
  void read(const Result<Registered>& content);
  void committed(Written written, const View& view, const std::string& why = {});
  void ended(Written written, const std::string& why = {});

  /// A process has come, or says again how it stands.
  void hello(const HelloWords& words);
  /// A process has ended, or is believed to have, and nothing more comes over its old connection. A member that was
  /// lost is not asked again; a learner that says hello after that is there.
  void lost(MemberNumber number);
  void reported(const ReportWords& words);
  /// The world of a view has begun for a member.
  void begun(MemberNumber number, std::uint64_t epoch);
  /// A member has taken the last round.
  void done(MemberNumber number, std::uint64_t epoch);
  /// A member leaves, and nothing of it is pending. Where too few would be left, also when others have had time to
  /// come, the job is given up.
  void leaving(MemberNumber number);
  /// A member waits in a call, for a second by then, or does not any more.
  void waits(MemberNumber number, bool does);
  /// Time goes on.
  void tick(TimePoint now);

  std::vector<MasterAction> take_actions() { return std::exchange(actions_, {}); }
  /// The register as far as it is known here; null: it has not been read yet.
  const std::shared_ptr<const Registered>& known() const { return known_; }
  Phase phase() const { return phase_; }
  /// Whether the world of the newest view has begun for all of its members.
  bool has_begun() const { return known_ && view().epoch > 0 && all_of_view(begun_); }
  /// Processes that have come and are no members, the lowest number first.
  std::vector<MemberNumber> spares() const { return known_ ? learners() : std::vector<MemberNumber>(); }
  /// The host of a process that has come, as it says; empty: it has not.
  std::string host_of(MemberNumber number) const {
    const auto found = present_.find(number);
    return found == present_.end() ? std::string() : found->second.host;
  }
  /// Whether a process is lost.
  bool has_lost(MemberNumber number) const { return lost_.contains(number); }
  /// In words, what the master waits for, and of whom; empty: nothing.
  std::string waiting() const;

  /// Puts behind `words` all that it does from now on depends on, but times.
  void describe(std::vector<std::int64_t>& words) const;

 private:
  const View& view() const { return known_->view; }
  bool is_member(MemberNumber number) const { return std::ranges::binary_search(members_, number); }
  bool is_past(MemberNumber number) const;
  void forget_past();
  void act(MasterAction action) { actions_.push_back(std::move(action)); }
  void step();
  void hear_of(std::uint64_t epoch);
  void watch();
  void learn(const Registered& content);
  void tell_all();
  void ask();
  void decide();
  void end(JobEnd how, std::string why = {});
  void refuse_misfits();
  std::vector<MemberNumber> survivors() const;
  std::vector<MemberNumber> learners() const;
  std::vector<MemberNumber> coming_in() const;
  std::vector<PlacedMember> staying(RoundsHeld most_held, std::vector<MemberNumber>& let_go) const;
  bool all_of_view(const std::map<MemberNumber, std::uint64_t>& said) const;
  bool has_gathered() const;
  bool may_let_go() const;
  bool too_few_stay() const;
  bool ends_by_leaving() const;
  bool must_change() const;
  bool may_change() const;
  std::vector<MemberNumber> standing_still() const;
  void evict();
  void be_away(const std::string& why);

  MasterOptions options_;
  Phase phase_ = Phase::reading;
  TimePoint now_;
  std::shared_ptr<const Registered> known_;
  std::vector<MemberNumber> members_;  // of the known view, ascending
  std::vector<MasterAction> actions_;

  std::map<MemberNumber, HelloWords> present_;  // all that have come
  std::set<MemberNumber> lost_, leaving_;
  std::map<MemberNumber, std::uint64_t> begun_, done_, stopped_;  // the last epoch
  std::uint64_t heard_of_ = 0;                                    // the last epoch that a member is in
  std::set<MemberNumber> asked_;                                  // to freeze, in the known epoch
  std::map<MemberNumber, ReportWords> reports_;                   // of the known epoch
  std::map<MemberNumber, TimePoint> waiting_since_;               // in the known epoch
  TimePoint asked_at_;                                            // members to freeze
  TimePoint came_;                                                // the last that has come
  std::optional<TimePoint> away_since_, few_since_, too_few_stay_since_;
  TimePoint read_at_;     // while away: again then
  bool answers_ = false;  // the register, in this very call
  std::string why_away_;
};

}  // namespace stretto
