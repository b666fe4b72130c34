#include "stretto/ordering/orderer/description_hash.h"

#include "stretto/base/random.h"

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

}  // namespace stretto
