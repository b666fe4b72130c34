#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/shared_counter.h"
#include "stretto/dispenser/pool.h"
#include "stretto/membership/changes.h"
#include "stretto/membership/job.h"

namespace stretto {

/// The members of a job for a while, where they change.
struct MembersFor {
  std::uint64_t epoch = 0;   ///< View::epoch
  std::uint64_t rounds = 0;  ///< complete before
  double seconds = 0;        ///< since the first step, when the rank that reports went on with them
  std::vector<std::uint64_t> members;
};

/// The members of a job where they change, and their batches.
struct MembersFigures {
  std::vector<MembersFor> worlds;      ///< in order
  std::vector<std::uint64_t> batches;  ///< applied, of each member, by number; also of those that are lost
};

/// The number by which files, delays and accounts know a rank: that of the member where members change.
inline int number_of(RankContext& rank) {
  return rank.changes() != nullptr ? static_cast<int>(rank.changes()->number()) : rank.rank();
}

/// The number of what belongs to a machine: where members change a process may have the place of one before it.
inline int place_of(RankContext& rank) {
  return rank.changes() != nullptr ? rank.changes()->place() : rank.rank();
}

/// Counts up the batches of the pool of a job whose members change.
class MembersPool final : public SharedCounter {
 public:
  /// Of so many batches, by a plan that a number stands for.
  MembersPool(Changes& changes, std::uint64_t batches, std::uint64_t plan = 0)
      : changes_(changes), batches_(batches), plan_(plan) {}
  /// The next batch; from the end on the number of all batches.
  std::uint64_t fetch_add(std::uint64_t) override { return changes_.take(batches_, plan_).value_or(batches_); }
  std::uint64_t batches() const { return batches_; }  ///< in all

 private:
  Changes& changes_;
  const std::uint64_t batches_, plan_;
};

/// The members of a run, where they change, as a trainer sees them: it notes who is there. Application thread.
class RunMembers {
 public:
  /// Of a pool of so many batches.
  RunMembers(Changes& changes, std::uint64_t batches) : changes_(changes), pool_(changes, batches) {}

  /// The pool of batches.
  SharedCounter& pool() { return pool_; }

  /// Notes the members of the present world, where it is another than before: `seconds` after the first step. Returns
  /// a sentence about it, or nothing.
  std::string look(double seconds) {
    const View& view = changes_.view();
    auto& worlds = figures_.worlds;
    if (!worlds.empty() && worlds.back().epoch == view.epoch) return {};
    MembersFor world{.epoch = view.epoch, .rounds = view.complete, .seconds = seconds, .members = {}};
    for (const PlacedMember& member : view.members) world.members.push_back(member.number);
    worlds.push_back(std::move(world));
    if (worlds.size() == 1) return {};
    return text(view.members.size(), " members go on after round ", view.complete, ", where ",
                worlds[worlds.size() - 2].members.size(), " were");
  }
  /// The members so far, as plain numbers, for one that comes to the job.
  std::vector<std::uint64_t> worlds() const {
    std::vector<std::uint64_t> numbers;
    for (const MembersFor& world : figures_.worlds) {
      numbers.insert(numbers.end(), {world.epoch, world.rounds, std::bit_cast<std::uint64_t>(world.seconds)});
      numbers.push_back(world.members.size());
      numbers.insert(numbers.end(), world.members.begin(), world.members.end());
    }
    return numbers;
  }
  /// In place of what is noted here: worlds() of another rank's.
  void take_over(std::span<const std::uint64_t> numbers) {
    figures_.worlds.clear();
    while (numbers.size() >= 4) {
      MembersFor world{numbers[0], numbers[1], std::bit_cast<double>(numbers[2]), {}};
      const std::size_t members = std::min<std::uint64_t>(numbers[3], numbers.size() - 4);
      const auto named = numbers.subspan(4, members);
      world.members.assign(named.begin(), named.end());
      figures_.worlds.push_back(std::move(world));
      numbers = numbers.subspan(4 + members);
    }
  }
  /// The batches that the ranks were to apply from `before` on, once all are: those that are dropped are none of them.
  std::uint64_t to_apply(std::uint64_t before) const {
    return pool_.batches() - before - Pool::dropped_in(changes_.view().position);
  }
  /// `batches`: MembersFigures::batches.
  MembersFigures figures(std::vector<std::uint64_t> batches) const {
    MembersFigures figures = figures_;
    figures.batches = std::move(batches);
    return figures;
  }

 private:
  Changes& changes_;
  MembersPool pool_;
  MembersFigures figures_;
};

}  // namespace stretto
