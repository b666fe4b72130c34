#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "stretto/collective/grid_allreduce.h"
#include "stretto/membership/changes.h"

namespace stretto {

/// The line of a member in a dimension of the grid that the members of a view make, in the order of their places;
/// empty: it is in none, or alone. A grid of too few for its dimensions has fewer, and no line is longer than
/// `elements`. A member without a model is in no line before the world of the view has `begun`, unless it is given one
/// beside training (View::gives).
std::vector<MemberNumber> line_in(const View& view, bool begun, MemberNumber member, int dimension,
                                  const GridOptions& grid, std::uint64_t elements);

/// Has this rank's node of a grid be in the lines of the newest view, each of which is a world of its own. The
/// application computes meanwhile, and the other lines go on. A line whose nodes stay the same stays as it is, in the
/// middle of its rounds. Another one begins when all of its nodes have come; where nodes are added alone the one before
/// goes on until then. A line that has lost a node is met anew, where the view has it still.
class LineWorlds {
 public:
  /// `changes` outlives it. Requires: Changes::some_may_meet().
  LineWorlds(Changes& changes, std::shared_ptr<GridAllreduce> grid);
  LineWorlds(const LineWorlds&) = delete;  // the node stays in the lines where it is when this ends
  LineWorlds& operator=(const LineWorlds&) = delete;

  /// The rank has begun in the world of the view of this epoch: all of its members have a model from now on.
  void begun(std::uint64_t epoch);

 private:
  std::vector<MemberNumber> line(const View& view, int dimension) const;
  void enter(int dimension, const std::shared_ptr<World>& world);

  Changes& changes_;
  const std::shared_ptr<GridAllreduce> grid_;
  std::atomic<std::uint64_t> begun_{0};                // epoch
  std::vector<std::unique_ptr<Following>> following_;  // by dimension
};

}  // namespace stretto
