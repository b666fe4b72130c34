#pragma once

#include <cstdint>
#include <memory>

#include "command/machine/namespace_hosts.h"
#include "command/statistics/comparison.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/collective/grid_allreduce.h"

namespace stretto::command {

/// The settings of a measurement of an elastic grid.
struct GridTiming {
  GridAllreduceOptions options{.grid = {}, .line = {}};
  /// Between two exchanges a node sleeps so long, as one whose accelerator computes. 0: it takes what has come, and
  /// publishes its model, as fast as it can.
  Duration pace{0};
  /// A step takes so much of a core's time, in place of sleeping.
  bool on_core = false;
  /// The share of the model's numbers, drawn, that are 0 on all nodes, and stay so.
  double zeros = 0;
  /// Of the measurement; and of the wire as much, half before it and half behind.
  Duration time = std::chrono::seconds(2);
  std::shared_ptr<const NamespaceHosts> hosts = {};  ///< of the nodes; null: all are on this one
};

/// The values of a reading, in this order.
enum GridColumn : std::size_t {
  kWireRate,       ///< MB/s each way a node, of plain messages between nodes that have a line together
  kGridRate,       ///< MB/s each way a node, of slices and means
  kWireShare,      ///< % of kWireRate
  kRooflineShare,  ///< % of the additions that a wire of that rate lets a node make (roofline_additions())
  kGridRounds,     ///< rounds a second of a node's lines, together, that the application has applied
  kGridComputing,  ///< % of the time that a node has computed: the paper's share of the ideal speed-up; raw 0
  kGridMissing,    ///< % of the contributions to a node's slice that had not come in time, or were headers alone
  kGridStep,       ///< ms from one exchange to the next; raw NaN
  kStepProcessor,  ///< ms of processors from one exchange to the next, those of its steps and of its lines; raw NaN
  kRoundBytes,     ///< MB that a node sends for each of kGridRounds
  kGridColumns,
};

/// The roofline of Peng (UCB/EECS-2018-77, section 4.2): a round of p nodes adds (p − 1)N/p numbers for 4(p − 1)·4N/p
/// bytes, both ways together: an addition for 16 bytes.
double roofline_additions(double bytes_each_way_per_second);
/// The numbers that a node adds in a round of its line.
double additions_of_round(int line_nodes, std::uint64_t elements);

/// Nodes that exchange models of so many float32, each in a process, for GridTiming::time. Errc as run_job().
Result<Reading> measure_grid(int nodes, std::uint64_t elements, const GridTiming& timing);

}  // namespace stretto::command
