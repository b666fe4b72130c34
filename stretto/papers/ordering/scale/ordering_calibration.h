#pragma once

#include <string>
#include <string_view>

#include "stretto/base/error.h"
#include "stretto/papers/ordering/scale/ordered_job.h"

namespace stretto {

/// The costs of an order of gradients on some machine, and their source.
struct OrderingCalibration {
  std::string source;   ///< "paper", or the file
  std::string machine;  ///< on which it was measured; of the paper: whose it is
  std::string date;     ///< "2026-11-25"; of the paper: empty
  OrderingCosts costs;
};

/// A fit to six numbers of Pumma, Buono, Checconi, Que and Feng, "Alleviating Load Imbalance in Data Processing for
/// Large-Scale Deep Learning" (CCGrid 2020): none of its parts was measured. docs/lab/ordering_costs.md, "At scale",
/// says which numbers, and what was fitted.
OrderingCalibration paper_calibration();

/// Section V-A: ResNet-50, 32 samples a rank, 7 cores and one accelerator a rank, 6 ranks a host, the input pipeline
/// active for 48 % of the computation, nothing computed during transfers. The cost of the network that each doubling of
/// the number of hosts adds is part of the fit.
OrderedJob paper_job(int ranks);

/// Reads what `stretto bench ordering-costs` has written. Errc::bad_input names `source`, the value, and what was
/// expected instead of it; other units than seconds are among that.
Result<OrderingCalibration> read_calibration(std::string_view json, const std::string& source);

/// Writes the JSON that read_calibration() reads. `measured`: an object in JSON with whatever else is worth keeping,
/// which nothing reads.
std::string to_json(const OrderingCalibration& calibration, std::string_view measured = "{}");

}  // namespace stretto
