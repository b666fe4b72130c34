#include "stretto/train/job/members/line_worlds.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/collective/rounds/lines/line_rounds.h"
#include "stretto/membership/views/members_in_words.h"

namespace stretto {
namespace {

constexpr Duration kLooksEvery = std::chrono::milliseconds(50);  // at its line, and whether it is to end

/// Thrown by a wait for the nodes of a line that the newest view does not have.
struct LineIsOver {};

}  // namespace

std::vector<MemberNumber> line_in(const View& view, bool begun, MemberNumber member, int dimension,
                                  const GridOptions& grid, std::uint64_t elements) {
  std::vector<MemberNumber> nodes;
  for (const PlacedMember& placed : view.members) {
    if (begun || placed.held != kNoModel) nodes.push_back(placed.number);
  }
  const auto place = std::ranges::find(nodes, member) - nodes.begin();
  if (nodes.size() < 2 || std::cmp_equal(place, nodes.size())) return {};
  GridOptions fitting = grid;
  while (std::size_t{1} << fitting.dimensions > nodes.size()) fitting = {.dimensions = fitting.dimensions - 1};
  if (fitting.rows > 0 && std::pow(fitting.rows, fitting.dimensions - 1) > static_cast<double>(nodes.size())) {
    fitting.rows = 0;
  }
  if (dimension >= fitting.dimensions) return {};
  std::vector<MemberNumber> line;
  for (const int at : GridLayout(static_cast<int>(nodes.size()), fitting).line_of(static_cast<int>(place), dimension)) {
    line.push_back(nodes[static_cast<std::size_t>(at)]);
  }
  return line.size() < 2 || line.size() > elements ? std::vector<MemberNumber>() : line;
}

LineWorlds::LineWorlds(Changes& changes, std::shared_ptr<GridAllreduce> grid)
    : changes_(changes), grid_(std::move(grid)) {
  for (int dimension = 0; dimension < grid_->dimensions(); ++dimension) {
    threads_.emplace_back([this, dimension] { follow(dimension); });
  }
}

LineWorlds::~LineWorlds() {
  stops_.store(true, std::memory_order_release);
  for (std::thread& thread : threads_) thread.join();
}

std::vector<MemberNumber> LineWorlds::line(const View& view, int dimension) const {
  const bool begun = begun_.load(std::memory_order_acquire) == view.epoch;
  return line_in(view, begun, changes_.number(), dimension, grid_->grid(), grid_->elements());
}

void LineWorlds::follow(int dimension) {
  std::vector<MemberNumber> here;
  std::shared_ptr<const View> view = changes_.newest_view(0, kLooksEvery);
  while (!stops_.load(std::memory_order_acquire)) {
    std::vector<MemberNumber> next = line(*view, dimension);
    if (next == here && !grid_->is_broken(dimension)) {
      view = changes_.newest_view(view->epoch, kLooksEvery);
      continue;
    }
    if (!here.empty()) grid_->enter(dimension, nullptr);
    here.clear();
    if (next.empty()) continue;
    const auto look = [&] {
      view = changes_.newest_view(view->epoch, Duration(0));
      if (stops_.load(std::memory_order_acquire) || line(*view, dimension) != next) throw LineIsOver();
    };
    try {
      const auto world = changes_.meet(text("dimension ", dimension, " of ", members_in_words(next)), next, look);
      if (world == nullptr) {
        view = changes_.newest_view(view->epoch, kLooksEvery);
        continue;
      }
      const auto rounds = grid_->make_line(world->engine(), dimension);
      world->keep(rounds);
      (void)world->driver();
      grid_->enter(dimension, {world, rounds.get()});
      here = std::move(next);
    } catch (const LineIsOver&) {
    } catch (const Failure&) {  // memory, or what else a world takes of the host: later
      view = changes_.newest_view(view->epoch, kLooksEvery);
    }
  }
}

}  // namespace stretto
