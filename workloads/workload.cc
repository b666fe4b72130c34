#include "workloads/workload.h"

#include "workloads/digits_data.h"
#include "workloads/hyperplane_data.h"
#include "workloads/sequence_data.h"
#include "workloads/workload_parts.h"

namespace stretto {

std::unique_ptr<Workload> make_workload(std::shared_ptr<const Dataset> data) {
  if (auto digits = std::dynamic_pointer_cast<const DigitsDataset>(data)) return make_digits_workload(digits);
  if (auto points = std::dynamic_pointer_cast<const HyperplaneDataset>(data)) return make_hyperplane_workload(points);
  auto sequences = std::dynamic_pointer_cast<const SequenceDataset>(data);
  STRETTO_CHECK(sequences != nullptr, "no model for this kind of data: ", data ? data->info().name : "none");
  return make_sequence_workload(sequences);
}

}  // namespace stretto
