#include "stretto/ordering/orderer/tensor_table.h"

#include "stretto/base/words.h"
#include "stretto/ordering/orderer/description_hash.h"

namespace stretto {

TensorId TensorTable::id_of(const TensorDescription& description) {
  const auto [found, added] = name_.try_emplace(description.name, static_cast<std::uint32_t>(ids_of_name_.size()));
  if (added) ids_of_name_.emplace_back();
  std::vector<TensorId>& ids = ids_of_name_[found->second];
  for (const TensorId id : ids) {
    if (tensors_[id].description == description) return id;
  }
  ids.push_back(static_cast<TensorId>(tensors_.size()));
  tensors_.push_back({description, found->second, hashed(0, description)});
  return ids.back();
}

std::string to_text(const TensorDescription& description) {
  return text(stretto::name_of(description.type), ", ", stretto::name_of(description.op), ", ", description.count,
              description.count == 1 ? " element" : " elements", description.fuses ? "" : ", alone");
}

}  // namespace stretto
