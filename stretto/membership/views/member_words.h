#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stretto/membership/views/batches_applied.h"
#include "stretto/membership/views/view.h"

namespace stretto {

/// A process's first words to a master: said to each new one, and again when the connection to it is new.
struct HelloWords {
  MemberNumber number = 0;
  std::string host = {};
  std::uint64_t epoch = 0;                        ///< of the view it knows; 0: none
  std::optional<std::uint64_t> stopped = {};      ///< the last epoch in which it has answered FREEZE
  std::map<std::string, std::string> terms = {};  ///< as View::terms
};

/// The term of a member that reports (RankContext::report()) to the launcher of its job. Other launchers let none in.
inline constexpr const char* kReportsTo = "reports to";

/// The rounds and batches that a member holds. Nothing of it but `pending` changes while its engine is stopped.
struct Holding {
  RoundsHeld held = kNoModel;
  BatchesApplied applied = {};  ///< in the rounds below `held`
  bool pending = false;         ///< it has handed over a batch that is in no round below `held`
  /// In place of that where it leaves: so many batches of its own that are in no such round are in a model that others
  /// have, and count where it is let go (View::left).
  std::uint64_t beside = 0;
};

/// How a job stands beside what its register says.
struct JobBeside {
  std::vector<MemberNumber> spares = {};  ///< have come, and wait for room
  std::string waits = {};                 ///< Master::waiting()
  std::vector<std::string> program = {};  ///< that its processes run, where its launcher says so
};

/// A member's answer to FREEZE(epoch): its engine has stopped, and will never complete a round of that epoch.
struct ReportWords {
  MemberNumber number = 0;
  std::uint64_t epoch = 0;
  Holding holding = {};
  bool leaving = false;  ///< it computes no further batch
  bool gives = false;    ///< it can give its state to others beside training
  /// Whether it may be let go, as far as it is concerned.
  bool may_go() const { return leaving && !holding.pending; }
  /// View::let_go().
  std::uint64_t left() const { return holding.beside > 0 ? holding.applied.of(number) + holding.beside : 0; }
};

}  // namespace stretto
