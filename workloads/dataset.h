#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"
#include "workloads/catalogue.h"

namespace stretto {

enum class Split { train, test };

struct DatasetOptions {
  /// Draws generated data (hyperplane); data that is read does not depend on it.
  std::uint64_t seed = 1;
  /// Where the data files lie: a site-packages directory, or one that holds the files themselves. Empty: the
  /// environment variable STRETTO_DATA, or else the site-packages of a `.venv` that data_files.h finds.
  std::string directory;
  /// Training points of `hyperplane`; 0: the paper's 32,768. More take memory: 8 KiB each.
  std::uint32_t hyperplane_points = 0;
};

/// The data of one workload, without Torch. Loaded once, in the process that forks the ranks; they share its pages.
/// Immutable after construction, therefore thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  const WorkloadInfo& info() const { return info_; }
  std::uint32_t num_train() const { return static_cast<std::uint32_t>(lengths_.size()); }
  std::uint32_t num_test() const { return num_test_; }
  std::uint32_t size(Split split) const { return split == Split::train ? num_train() : num_test(); }

  /// Units of work of each training sample on its own; batches are bucketed by it.
  const std::vector<std::uint32_t>& lengths() const { return lengths_; }

  /// The class of each training sample, from 0; empty where the workload does not classify.
  const std::vector<std::uint32_t>& labels() const { return labels_; }

  /// Units of work of one batch of training samples: each costs as much as the longest of them, to which it is
  /// padded. Requires: indices below num_train().
  std::uint64_t units(std::span<const std::uint32_t> samples) const;

 protected:
  Dataset(std::string_view workload, std::vector<std::uint32_t> lengths, std::uint32_t num_test,
          std::span<const std::int64_t> labels = {});

 private:
  const WorkloadInfo& info_;
  const std::vector<std::uint32_t> lengths_;
  const std::uint32_t num_test_;
  const std::vector<std::uint32_t> labels_;
};

/// Reads or generates the data of a workload. Throws UsageError for an unknown name. Errc::bad_input for a missing,
/// truncated or malformed file, with its path, its expected content and how to get it; Errc::unavailable when the
/// memory does not suffice, with the size needed.
Result<std::shared_ptr<const Dataset>> load_dataset(std::string_view workload, const DatasetOptions& options = {});

}  // namespace stretto
