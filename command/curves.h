#pragma once

#include <span>
#include <string>

#include "command/run_set.h"

namespace stretto::command {

/// Training loss over batches and over time, one row a point: algorithm,seed,batches,seconds,loss.
std::string curves_csv(std::span<const RunGroup> groups);

/// Writes curves.csv to `folder`, and curves-batches.svg and curves-time.svg where matplotlib is to be had. Returns
/// what was written, or why something was not, as a sentence.
std::string write_curves(const std::string& folder, std::span<const RunGroup> groups);

}  // namespace stretto::command
