#pragma once

#include <span>
#include <string>

#include "command/train/run_set.h"

namespace stretto::command {

/// The measurements over batches and over time, one row a point, quoted as RFC 4180 says:
/// algorithm,seed,batches,seconds,loss,test_loss,accuracy. A point is the training loss since the point before, or an
/// evaluation on test data, the last of them that of the model that counts; what it has not is empty.
std::string curves_csv(std::span<const RunGroup> groups);
/// Batches applied a second, one row a run, beside those that the drawn delays leave time for where nothing is
/// communicated: algorithm,imbalance,ranks,seed,batches_per_second,no_communication.
std::string throughput_csv(std::span<const RunGroup> groups);

/// Writes curves.csv to `folder`, and, where matplotlib is to be had, curves-batches.svg, curves-time.svg, and
/// waiting.svg: who waits for whom, in the first algorithm and in the best of the others. Returns a sentence that names
/// the files written, or the reason why some were not.
std::string write_pictures(const std::string& folder, std::span<const RunGroup> groups);
/// waiting.svg alone, from records that lie in the folder `inside` that of each run.
std::string write_waiting(const std::string& folder, std::span<const RunGroup> groups, const std::string& inside);
/// throughput.csv and throughput.svg, over the number of ranks, in the same way.
std::string write_throughput(const std::string& folder, std::span<const RunGroup> groups);

}  // namespace stretto::command
