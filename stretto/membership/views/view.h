#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {

/// The number of a process in its job. Numbers count up, and none is ever used again.
using MemberNumber = std::uint64_t;

/// The number of rounds of which a member holds the results; kNoModel: a learner, which has no model yet.
using RoundsHeld = std::int64_t;
inline constexpr RoundsHeld kNoModel = -1;

/// A member at its place in a view.
struct PlacedMember {
  MemberNumber number = 0;
  std::string host = {};       ///< as hosts name themselves
  RoundsHeld held = kNoModel;  ///< when the view was decided
  friend bool operator==(const PlacedMember&, const PlacedMember&) = default;
};

/// The members of a job for a while: a world is made of it, and while it lasts none comes in and none is let go. A view
/// is decided once, in the register, and never changes.
struct View {
  std::uint64_t epoch = 0;                  ///< 0: nobody has come in yet
  std::vector<PlacedMember> members = {};   ///< by their places, which are the ranks of the world
  std::uint64_t complete = 0;               ///< R: the rounds complete before the world, whose rounds go on from there
  std::vector<MemberNumber> departed = {};  ///< all members so far that were let go, ascending
  std::map<MemberNumber, std::uint64_t> left = {};  ///< all batches of those, where some were in no round by then
  MemberNumber next_number = 0;                     ///< a process with a number below it comes in never again, but
  std::vector<MemberNumber> unused = {};   ///< by these, which nobody has come in by; ascending, the latest of them
  std::vector<MemberNumber> leaving = {};  ///< members that wish to leave, and stay for now
  std::vector<MemberNumber> gives = {};  ///< members that can give their state beside training to those without a model
  int rows = 0;                          ///< of the grid that its members make in two dimensions; rows_among()
  std::vector<std::uint64_t> position = {};  ///< of the pool of batches, which membership does not interpret
  /// By name, what is the same for all members: version, model, optimizer, options, a secret's fingerprint.
  std::map<std::string, std::string> terms = {};
  friend bool operator==(const View&, const View&) = default;

  /// The place of a member, or nothing.
  std::optional<std::size_t> place_of(MemberNumber number) const;
  bool has(MemberNumber number) const { return place_of(number).has_value(); }
  /// By place, for a person: "member 5".
  std::vector<std::string> names() const;
  /// Members of `gives` that one without a model asks, one after the other: four at most, others for each.
  std::vector<MemberNumber> givers_for(MemberNumber comer) const;
  /// Whether some member waits for the others in its world: it lacks what they hold, and nobody gives it that beside
  /// training, or it wishes to leave.
  bool is_awaited() const;
  /// Some of its members, in the order of their places, as they are placed in the next view: each keeps its place, and
  /// the last ones take the places of those that are gone, so that the lines of a grid change as little as they can.
  std::vector<PlacedMember> closed_up(std::vector<PlacedMember> stay) const;
  /// The rows of that grid in the next view, of so many members: as many as here, where there are about as many
  /// columns.
  int rows_among(std::size_t members) const;
  /// A member is let go. `batches`: all of its, where some were in no round by then; else 0.
  void let_go(MemberNumber number, std::uint64_t batches);
  /// Whether the member has been let go.
  bool has_departed(MemberNumber number) const;
  /// Whether a process of this number may become a member: no process has been one by it.
  bool may_come_in(MemberNumber number) const;
  /// Counts next_number and `unused` up, from those of the view before, for `members`.
  void use_numbers();
};

/// Both values of the first of the terms of a job that is another one for a process (View::terms); empty: none is.
std::string difference_of_terms(const std::map<std::string, std::string>& job,
                                const std::map<std::string, std::string>& own);

/// How a job has ended.
enum class JobEnd : std::uint8_t {
  none,      ///< it goes on
  done,      ///< after its last round
  given_up,  ///< too few members are left, or none that has a model
};

/// The content of a register: the newest view, and whether the job has ended in it.
struct Registered {
  View view = {};
  JobEnd end = JobEnd::none;
  friend bool operator==(const Registered&, const Registered&) = default;

  /// One line of JSON.
  std::string encoded() const;
  /// Takes any text and does not throw. Errc::bad_input says which part of it encoded() cannot have written.
  static Result<Registered> decoded(std::string_view line);
};

}  // namespace stretto
