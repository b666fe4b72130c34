#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stretto/ordering/orderer/graph.h"
#include "stretto/ordering/orderer/orderer.h"

namespace stretto {

/// The hash of what `hash` stands for, followed by a word: two different sequences hardly share one.
std::uint64_t hashed(std::uint64_t hash, std::uint64_t word);
/// The same, followed by words.
std::uint64_t hashed(std::uint64_t hash, std::string_view words);
/// The same, followed by a description but for its process set.
std::uint64_t hashed(std::uint64_t hash, const TensorDescription& tensor);

/// The tensors that an orderer knows, by id: one for each description. Names are numbered, too, since a step has one
/// tensor of each. Nothing is ever forgotten.
class TensorTable {
 public:
  /// The id of this description; a new one where there was none.
  TensorId id_of(const TensorDescription& description);
  const TensorDescription& description(TensorId id) const { return tensors_[id].description; }  ///< Requires: known
  std::uint32_t name_of(TensorId id) const { return tensors_[id].name; }                        ///< number of its name
  std::uint64_t hash_of(TensorId id) const { return tensors_[id].hash; }                        ///< of its description
  std::size_t size() const { return tensors_.size(); }                                          ///< ids
  std::size_t names() const { return ids_of_name_.size(); }                                     ///< different ones

 private:
  struct Tensor {
    TensorDescription description;
    std::uint32_t name = 0;
    std::uint64_t hash = 0;
  };
  std::deque<Tensor> tensors_;                           // by id; references stay valid
  std::unordered_map<std::string, std::uint32_t> name_;  // by name: its number
  std::vector<std::vector<TensorId>> ids_of_name_;       // by number of the name
};

/// A description in words: "float32, sum, 12 elements".
std::string to_text(const TensorDescription& description);

}  // namespace stretto
