#include "stretto/train/job/members/line_worlds.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/collective/rounds/lines/line_rounds.h"

namespace stretto {

std::vector<MemberNumber> line_in(const View& view, bool begun, MemberNumber member, int dimension,
                                  const GridOptions& grid, std::uint64_t elements) {
  std::vector<MemberNumber> nodes;
  for (const PlacedMember& placed : view.members) {
    if (begun || placed.held != kNoModel || !view.gives.empty()) nodes.push_back(placed.number);
  }
  const auto place = std::ranges::find(nodes, member) - nodes.begin();
  if (nodes.size() < 2 || std::cmp_equal(place, nodes.size())) return {};
  const GridOptions fitting = grid.fitting(static_cast<int>(nodes.size()));
  if (dimension >= fitting.dimensions) return {};
  std::vector<MemberNumber> line;
  const GridLayout layout(static_cast<int>(nodes.size()), fitting, fitting.dimensions == 2 ? view.rows : 0);
  for (const int at : layout.line_of(static_cast<int>(place), dimension)) {
    line.push_back(nodes[static_cast<std::size_t>(at)]);
  }
  return line.size() < 2 || line.size() > elements ? std::vector<MemberNumber>() : line;
}

LineWorlds::LineWorlds(Changes& changes, std::shared_ptr<GridAllreduce> grid)
    : changes_(changes), grid_(std::move(grid)) {
  for (int dimension = 0; dimension < grid_->dimensions(); ++dimension) {
    following_.push_back(
        changes_.follow({.name = text("dimension ", dimension),
                         .members = [this, dimension](const View& newest) { return line(newest, dimension); },
                         .is_broken = [this, dimension] { return grid_->is_broken(dimension); },
                         .enter = [this, dimension](const auto& world) { enter(dimension, world); }}));
  }
}

void LineWorlds::begun(std::uint64_t epoch) {
  begun_.store(epoch, std::memory_order_release);
  for (const auto& following : following_) following->look();
}

std::vector<MemberNumber> LineWorlds::line(const View& view, int dimension) const {
  const bool begun = begun_.load(std::memory_order_acquire) == view.epoch;
  return line_in(view, begun, changes_.number(), dimension, grid_->grid(), grid_->elements());
}

void LineWorlds::enter(int dimension, const std::shared_ptr<World>& world) {
  if (world == nullptr) return grid_->enter(dimension, nullptr);
  const auto rounds = grid_->make_line(world->engine(), dimension);
  world->keep(rounds);
  (void)world->driver();
  grid_->enter(dimension, {world, rounds.get()});
}

}  // namespace stretto
