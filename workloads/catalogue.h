#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace stretto {

/// One workload as the command shows it: its description, and the defaults of a run.
struct WorkloadInfo {
  std::string_view name;
  std::string_view description;  ///< one line for --help
  std::string_view unit;         ///< a unit of work, as `units` and --pace count: "padded time step", "image", "row"
  std::string_view needs;        ///< where the data comes from, for --help
  int batch = 0;                 ///< samples a batch and rank
  double lr = 0;
  double momentum = 0;
  std::uint64_t epochs = 0;     ///< passes over the training data, in all
  bool bucketed = false;        ///< batches are formed from samples of about the same length
  bool classifies = false;      ///< has an accuracy
  bool sums_in_passes = false;  ///< its model sums over all ranks in forward and backward pass: SyncBatchNorm
};

/// All workloads. Knows neither Torch nor any file: cheap enough for --help.
std::span<const WorkloadInfo> workload_catalogue();

/// Throws UsageError, listing the known ones, when there is no such workload.
const WorkloadInfo& workload_info(std::string_view name);

}  // namespace stretto
