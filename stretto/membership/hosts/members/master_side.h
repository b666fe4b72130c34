#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/membership/hosts/members/kept_pool.h"
#include "stretto/membership/hosts/members/link_words.h"
#include "stretto/membership/views/master.h"
#include "stretto/membership/views/missed_links.h"
#include "stretto/membership/views/pool_change.h"
#include "stretto/membership/views/register.h"

namespace stretto {

/// The ways out of a MasterSide.
struct MasterSideHooks {
  std::function<void(MemberNumber to, const MasterWords& words)> say;  ///< to a process; lost where it is not there
  std::function<void(const std::string& line)> tell;                   ///< to a person
  /// Ends the process of a member that the others go on without, where it is on a host of the caller's.
  std::function<void(MemberNumber)> kill;
};

/// A master with its register and the pool of batches: the words that processes say to it, and those that it says to
/// them. No thread, clock or socket of its own; calls come one at a time.
class MasterSide {
 public:
  /// `reg` outlives it. `now`: of the clock of tick().
  MasterSide(Register& reg, const MasterOptions& options, TimePoint now, MasterSideHooks hooks);
  MasterSide(const MasterSide&) = delete;
  MasterSide& operator=(const MasterSide&) = delete;

  /// Reads the register. Once, before anything else.
  void begin() { act(); }
  /// A word of a process that speaks for a member.
  void hear(MemberNumber number, const ProcessWords& words);
  /// Master::lost().
  void lose(MemberNumber number);
  /// Time goes on.
  void tick(TimePoint now);

  const Master& master() const { return master_; }
  /// The register as far as it is known here. It stays as it is when the master learns of another content.
  std::shared_ptr<const Registered> known() const { return master_.known() != nullptr ? master_.known() : nothing_; }

 private:
  /// Tells the other members of a view where the first of them, which has said so, has them meet, or a member others.
  void pass_on(MemberNumber number, const ProcessWords& words);
  /// The same again to one whose connection is new.
  void pass_on_to(MemberNumber number);
  void hear_of_missed(MemberNumber number, const ProcessWords& words);
  /// Goes on without one of two hosts that do not reach each other, with those that wait there for room.
  void part_hosts();
  void hand_out(MemberNumber number, const ProcessWords& words);
  /// Does what the master wants, until it wants nothing.
  void act();
  void carry_out(MasterAction action);
  void commit(View view, BatchesApplied applied);
  /// The register has been read.
  void look(const Result<Registered>& content);
  /// Once all members have begun, what all have is for good.
  void settle();

  Register& register_;
  const MasterSideHooks hooks_;
  const std::shared_ptr<const Registered> nothing_ = std::make_shared<const Registered>();
  Master master_;
  KeptPool pool_;
  BatchesApplied applied_;  // before the present world, and not settled
  /// A view of which it is not known whether the register has it, and what that means for the pool.
  struct Proposal {
    View view;
    BatchesApplied applied;
    std::optional<PoolChange> change;
  };
  void adopt(Proposal proposal);
  std::optional<Proposal> unknown_;
  std::optional<MasterWords> meeting_;  // of all, that was passed on last
  std::deque<MasterWords> others_;      // meetings of some, the latest of them
  MissedLinks missed_;
  std::map<MemberNumber, ProcessWords> asked_;  // for batches, and there is no answer yet
  TimePoint now_;
  bool acts_ = false;
};

}  // namespace stretto
