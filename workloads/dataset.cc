#include "workloads/dataset.h"

#include <algorithm>
#include <array>

#include "workloads/digits_data.h"
#include "workloads/hyperplane_data.h"
#include "workloads/sequence_data.h"

namespace stretto {

Dataset::Dataset(std::string_view workload, std::vector<std::uint32_t> lengths, std::uint32_t num_test,
                 std::span<const std::int64_t> labels)
    : info_(workload_info(workload)),
      lengths_(std::move(lengths)),
      num_test_(num_test),
      labels_(labels.begin(), labels.end()) {}

std::uint64_t Dataset::units(std::span<const std::uint32_t> samples) const {
  std::uint64_t longest = 0;
  for (const std::uint32_t sample : samples) longest = std::max<std::uint64_t>(longest, lengths_[sample]);
  return longest * samples.size();
}

Result<std::shared_ptr<const Dataset>> load_dataset(std::string_view workload, const DatasetOptions& options) {
  const WorkloadInfo& info = workload_info(workload);
  constexpr std::array<std::string_view, 5> kOfDigits = {"branches", "digits", "digits-conv", "digits-wide",
                                                         "resnet-small"};
  if (std::ranges::find(kOfDigits, info.name) != kOfDigits.end()) return load_digits(info.name, options);
  if (info.name == "hyperplane") return generate_hyperplane(options);
  if (info.name == "plaid") return load_plaid(options);
  STRETTO_CHECK(info.name == "vowels", "no loader for ", info.name);
  return load_vowels(options);
}

}  // namespace stretto
