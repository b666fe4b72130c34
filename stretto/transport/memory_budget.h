#pragma once

#include <cstdint>
#include <string>

namespace stretto {

/// Bytes that this process may still fill, and the limit they come from.
struct MemoryBudget {
  std::uint64_t bytes = 0;
  std::string limit;  ///< "free memory of the machine", "memory limit of the container", …
};

/// Memory of any kind: what is available on the machine, or what the process's control groups (v1 or v2) leave, with
/// their page cache counted as free, if that is less. `root` stands before /proc and /sys (tests).
MemoryBudget available_memory(const std::string& root = "");

/// Shared memory: the least of available_memory(), the file size limit of the process, and half of the addresses that
/// its address space limit leaves. The environment variable STRETTO_SHM_LIMIT, in bytes, takes the place of all of
/// them; throws UsageError if it is no number.
MemoryBudget memory_budget(const std::string& root = "");

/// "512 B", "1.5 MiB".
std::string format_bytes(std::uint64_t bytes);

}  // namespace stretto
