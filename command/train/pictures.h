#pragma once

#include <span>
#include <string>

#include "command/train/run_set.h"

namespace stretto::command {

/// Training loss over batches and over time, one row a point: algorithm,seed,batches,seconds,loss.
std::string curves_csv(std::span<const RunGroup> groups);

/// Writes curves.csv to `folder`, and, where matplotlib is to be had, curves-batches.svg, curves-time.svg, and
/// waiting.svg: who waits for whom, in the first algorithm and in the best of the others. Returns a sentence that names
/// the files written, or the reason why some were not.
std::string write_pictures(const std::string& folder, std::span<const RunGroup> groups);
/// waiting.svg alone, from records that lie in the folder `inside` that of each run.
std::string write_waiting(const std::string& folder, std::span<const RunGroup> groups, const std::string& inside);

}  // namespace stretto::command
