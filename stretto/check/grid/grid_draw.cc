#include "stretto/check/grid/grid_draw.h"

#include <algorithm>

#include "stretto/base/error.h"

namespace stretto {
namespace {

GridOptions draw_layout(Random& random, int nodes) {
  GridOptions options;
  while (options.dimensions > 1 && 1 << options.dimensions > nodes) --options.dimensions;
  if (nodes >= 8 && random.chance(0.3)) options.dimensions = 3;
  if (random.chance(0.1)) options.dimensions = 1;
  if (options.dimensions == 2 && random.chance(0.3)) {
    options.shape = GridShape::paper;
  } else if (options.dimensions == 2 && random.chance(0.2)) {
    options.rows = static_cast<int>(random.between(1, nodes));
  }
  return options;
}

double draw_share(Random& random, double whole, double most) {
  return random.chance(whole) ? 1 : 0.2 + (most - 0.2) * random.uniform();
}

LineOptions draw_lines(Random& random, Duration latency) {
  const double whole = random.chance(0.4) ? 1 : random.chance(0.5) ? 0.2 : 0;
  const double most = whole > 0 ? 1 : 0.5;  // lines that do without some of their nodes
  LineOptions lines;
  for (double* share : {&lines.reduce, &lines.complete, &lines.advance}) *share = draw_share(random, whole, most);
  switch (random.below(4)) {
    case 0: break;
    case 1: lines.adaptive = true; break;
    default: lines.patience = Duration(latency.count() * static_cast<std::int64_t>(random.log_uniform(1, 100)));
  }
  if (random.chance(0.4)) {
    lines.update = ElasticUpdate::paper;
    if (random.chance(0.5)) lines.missing = Missing::previous;
    lines.rounds_in_flight = static_cast<int>(random.log_uniform(1, 4));
  }
  return lines;
}

}  // namespace

std::string DrawnGrid::to_string() const {
  return text(nodes, " nodes in ", layout.dimensions(), " dimensions of side ", layout.side(), ", ",
              lines.update == ElasticUpdate::carry ? "carry" : "paper", ", thresholds ", lines.reduce, ", ",
              lines.complete, ", ", lines.advance, ", patience ", lines.adaptive ? "adaptive" : to_text(lines.patience),
              lines.missing == Missing::previous ? ", previous" : "", ", ", lines.rounds_in_flight, " in flight, ",
              elements, " residues", spares > 0 ? ", members change" : "", narrow ? ", narrow" : "");
}

Machines draw_grid_machines(Random random) {
  Machines machines = draw_machines(random, kMostGridNodes);
  // So that the events of applications are not far more than those of lines.
  machines.compute = Duration(machines.network.latency.count() * static_cast<std::int64_t>(random.log_uniform(1, 40)));
  return machines;
}

DrawnGrid draw_grid(Random& random, int ranks, Duration latency) {
  int nodes = random.chance(0.03) ? 16 : static_cast<int>(random.between(kFewestGridNodes, 10));
  if (ranks > 0) nodes = std::clamp(ranks, kFewestGridNodes, kMostGridNodes);
  const GridOptions grid = draw_layout(random, nodes);
  const bool changes = ranks == 0 && grid.rows == 0 && nodes > 2 && random.chance(0.3);
  const int spares = changes ? static_cast<int>(random.between(1, 2)) : 0;
  return {.nodes = nodes,
          .spares = spares,
          .grid = grid,
          .layout = GridLayout(nodes, grid),
          .lines = draw_lines(random, latency),
          .alpha = Field(1) / Field(random.log_uniform(1, 10)),
          .elements = static_cast<std::uint64_t>(nodes + spares) + random.below(4),
          .rounds = random.log_uniform(4, 40),
          .narrow = random.chance(0.5)};
}

}  // namespace stretto
