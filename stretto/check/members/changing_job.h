#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stretto/check/members/carried_rounds.h"
#include "stretto/membership/views/master.h"
#include "stretto/membership/views/member.h"
#include "stretto/membership/views/register.h"

namespace stretto {

/// A job whose members change, one step at a time: processes with the member's side as it is, masters, a register, and
/// the words between them, over links of which each keeps its order; with faults. What the processes compute is
/// CarriedRounds' part. Copyable: a state.
///
/// Checked after every step: one view an epoch, each the successor of the one before (M1); what CarriedRounds checks;
/// when a job is given up, that nobody is left who could go on; and when nothing can happen any more, that every
/// process knows how it stands and the job has ended (M6).
class ChangingJob {
 public:
  ChangingJob(const MasterOptions& master, const CarriedOptions& carried) : options_(master), rounds_(carried) {}

  struct Step {
    enum class Kind : std::uint8_t {
      application,  ///< `rounds`
      say,          ///< `number` speaks to `master` for the first time
      hear,         ///< `number` hears the next word of `master`
      told,         ///< `master` hears the next word of `number`
      write,        ///< the register answers `master`
      detect,       ///< `master` hears that `number` has ended
      enter,        ///< `number` enters the next view's world
      begin,        ///< the world begins for `number`
    };
    Kind kind = Kind::application;
    MemberNumber number = 0;
    std::size_t master = 0;
    CarriedRounds::Step rounds = {};
  };
  /// All that may happen now, but faults and the passing of time.
  std::vector<Step> steps() const;
  void take(const Step& step);
  /// A second goes by, which happens when nothing else does.
  void pass_time();

  // Faults, and what people do.

  MemberNumber come();                        ///< a new process
  void lose(MemberNumber number);             ///< its process ends
  void suspect(MemberNumber number);          ///< all masters that are there believe so
  void stay_excluded() { returns_ = false; }  ///< excluded processes do not come back
  void leave(MemberNumber number);            ///< it is asked to leave
  std::size_t start_master();
  void lose_master(std::size_t master);
  /// The register's next answers to a master: "unknown", the write made or not.
  enum class Answer : std::uint8_t { known, lost_after, lost_before };
  void answer_next(Answer answer) { answer_ = answer; }

  std::vector<MemberNumber> living() const;  ///< processes that are there and not done with the job
  std::vector<std::size_t> living_masters() const;
  const Member& member(MemberNumber number) const { return sites_.at(number).member; }
  const CarriedRounds& rounds() const { return rounds_; }
  const Registered& content() const { return last_; }
  bool has_ended() const { return last_.end != JobEnd::none; }
  std::uint64_t views() const { return last_.view.epoch; }

  /// Nothing more happens: checks that everybody has come to an end.
  void check_end();
  std::string wrong() const { return wrong_.empty() ? rounds_.wrong() : wrong_; }
  void describe(std::vector<std::int64_t>& words) const;

  struct Counts {
    std::uint64_t excluded_with_own_rounds = 0, leavers_held_back = 0, departed = 0, holders_lost = 0, begun_anew = 0,
                  begun_by_spares = 0;
    std::map<Master::Phase, std::uint64_t> masters_lost;
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Site {
    Member member;
    bool is_there = true;
    std::set<std::size_t> spoken;  // masters
  };
  struct Word {
    enum class Kind : std::uint8_t { hello, report, begun, done, leaving } kind;
    HelloWords hello = {};
    ReportWords report = {};
    std::uint64_t epoch = 0;
  };
  struct MasterSite {
    Master master;
    bool is_there = true;
    std::deque<MasterAction> wants;  // of the register
    std::map<MemberNumber, std::deque<MasterAction>> down;
    std::map<MemberNumber, std::deque<Word>> up;
    std::set<MemberNumber> knows_lost;
    std::uint64_t not_begun = 0;  // the last epoch in which a member has reported that it has no model
  };

  Site& site(MemberNumber number) { return sites_.at(number); }
  bool is_in(const Site& site) const { return site.is_there && site.member.standing() == Standing::present; }
  void disconnect(MemberNumber number, std::size_t at);
  void speak(MemberNumber number, Word word);
  void say_all(MemberNumber number, std::size_t master);
  void follow(std::size_t master);
  void hear(MemberNumber number, std::size_t master);
  void tell(MemberNumber number, std::size_t master);
  void answer(std::size_t master);
  void commit(Master& master, const MasterAction& action, Answer answer);
  void check_register(const Registered& now);
  void check_given_up(const View& view);
  void check_spares(const MasterSite& master, const MasterAction& end);
  void check_standing(MemberNumber number);
  void look(MemberNumber number);
  void violated(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  MasterOptions options_;
  CarriedRounds rounds_;
  MemoryRegister register_;
  Registered last_;  // what it holds
  std::map<MemberNumber, Site> sites_;
  std::vector<MasterSite> masters_;
  TimePoint now_;
  MemberNumber next_number_ = 0;
  std::set<MemberNumber> ever_in_, suspected_;
  Answer answer_ = Answer::known;
  bool returns_ = true;
  std::string wrong_;
  Counts counts_;
};

}  // namespace stretto
