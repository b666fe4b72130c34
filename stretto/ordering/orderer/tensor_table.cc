#include "stretto/ordering/orderer/tensor_table.h"

#include "stretto/base/random.h"
#include "stretto/base/words.h"

namespace stretto {

std::uint64_t hashed(std::uint64_t hash, std::uint64_t word) {
  return random_bits(hash, 0, word);
}

std::uint64_t hashed(std::uint64_t hash, std::string_view words) {
  hash = hashed(hash, std::uint64_t{words.size()});
  for (const char c : words) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;  // FNV-1a
  return hashed(hash, std::uint64_t{0});
}

std::uint64_t hashed(std::uint64_t hash, const TensorDescription& tensor) {
  hash = hashed(hash, std::string_view(tensor.name));
  for (const std::uint64_t word : {static_cast<std::uint64_t>(tensor.type), tensor.count,
                                   static_cast<std::uint64_t>(tensor.op), std::uint64_t{tensor.fuses}}) {
    hash = hashed(hash, word);
  }
  return hash;
}

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
