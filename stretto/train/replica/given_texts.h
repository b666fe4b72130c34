#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/collective/base/scheduled_collective.h"

namespace stretto {

/// Texts on their way from one rank to others, in pieces, which the engines of these ranks pass on while their
/// applications do something else. Application thread. Made in the same order on every rank; dropped when finished(),
/// or with the engine.
class GivenTexts {
 public:
  /// `lengths`: of the texts, the same on all ranks. `members`: the rank that gives them, and those that get them; a
  /// rank that is none of them has no part.
  GivenTexts(Engine& engine, std::vector<std::uint64_t> lengths, std::vector<int> members);

  /// On the rank that gives them, whose texts they are: begins to.
  void give(std::vector<std::string> texts);
  /// On a rank that gets them: begins to wait, without run().
  void expect();
  /// Whether they have left this rank, or have come; or the error that is final.
  Result<bool> finished() const { return collective_.finished(); }

  /// On a rank that gets them: waits. Errors: see ScheduledCollective::run().
  Result<void> run(Driver& driver, TimePoint deadline);
  /// When they have come.
  std::vector<std::string> texts() const;
  /// Gives back their memory, if they are finished().
  void forget();

  /// For who is missing in it, and to abort it.
  ScheduledCollective& collective() { return collective_; }

 private:
  const std::vector<std::uint64_t> lengths_;
  std::vector<std::int32_t> words_;  // one text behind the other
  ScheduledCollective collective_;
};

}  // namespace stretto
