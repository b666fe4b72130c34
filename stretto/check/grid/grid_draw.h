#pragma once

#include <string>

#include "stretto/base/random.h"
#include "stretto/check/harness/prime_field.h"
#include "stretto/check/harness/simulated_application.h"
#include "stretto/collective/groups/grid_layout.h"
#include "stretto/collective/lines/line_options.h"
#include "stretto/transport/transport.h"

namespace stretto {

inline constexpr int kFewestGridNodes = 2, kMostGridNodes = 33;

/// The grid of a job of the search for violations in its lines.
struct DrawnGrid {
  int nodes;  // at first
  int spares;
  GridOptions grid;
  GridLayout layout;
  LineOptions lines;
  Field alpha;
  std::uint64_t elements;
  Round rounds;  // of some line, until faults end
  bool narrow;   // a message has left a node only when it has arrived

  std::string to_string() const;
};

/// For any grid.
Machines draw_grid_machines(Random random);

/// `ranks`: so many nodes, whose members do not change; 0: drawn. `latency`: of a message.
DrawnGrid draw_grid(Random& random, int ranks, Duration latency);

}  // namespace stretto
