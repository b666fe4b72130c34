#pragma once

#include <cstdint>
#include <string>

#include "stretto/train/replica.h"

namespace stretto {

/// What is equal on all replicas of an algorithm that averages gradients. Buffers are not in it: they are local.
struct ReplicaChecksum {
  std::uint64_t parameters = 0;
  std::uint64_t optimizer = 0;  ///< its state: momentum and the like; differs between ranks where models are averaged
  friend bool operator==(const ReplicaChecksum&, const ReplicaChecksum&) = default;
};
ReplicaChecksum checksum_of(Replica& replica);

/// The optimizer as a line each group: its type and options. Equal on ranks that train alike.
std::string describe_optimizer(Replica& replica);

/// The version of Torch this is built with, e.g. "2.13.0".
std::string torch_version();

/// Writes weights, buffers and the optimizer's state to a new file. Throws Failure (Errc::io).
void save_replica(Replica& replica, const std::string& path);
/// Reads what save_replica() wrote for a model of the same description. Throws Failure (Errc::bad_input).
void load_replica(Replica& replica, const std::string& path);

}  // namespace stretto
