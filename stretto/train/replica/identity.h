#pragma once

#include <cstdint>
#include <string>

#include "stretto/train/replica/replica.h"

namespace stretto {

/// The identity of the replica whose state a checkpoint holds; all of it must be the same where it is loaded.
struct ReplicaIdentity {
  std::string library;      ///< that computes, with its version
  std::uint64_t model = 0;  ///< hash of the model's description
  std::string optimizer;    ///< its type, without options: the learning rate may be another one
};

ReplicaIdentity identity_of(const Replica& replica);

}  // namespace stretto
