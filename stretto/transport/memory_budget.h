#pragma once

#include <cstdint>
#include <string>

namespace stretto {

/// How much more shared memory this process may fill, and what says so.
struct MemoryBudget {
  std::uint64_t bytes = 0;
  std::string limit;  ///< "free memory of the machine", "memory limit of the container", …
};

/// The least of: memory available on the machine, what the process's control groups (v1 or v2) leave, with their page
/// cache counted as free, and the file size limit of the process. The environment variable STRETTO_SHM_LIMIT, in bytes,
/// takes the place of all of them; throws UsageError if it is no number. `root` stands before /proc and /sys (tests).
MemoryBudget memory_budget(const std::string& root = "");

/// "512 B", "1.5 MiB".
std::string format_bytes(std::uint64_t bytes);

}  // namespace stretto
