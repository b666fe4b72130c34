#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stretto {

/// Why a process or thread could not be made: the meaning of `error` (an errno) and, where a limit may be behind it
/// (EAGAIN), the limits there are and their values.
std::string why_no_process(int error);

/// Raises this process's limit on descriptors as far as the system allows (from the soft limit to the hard one).
/// Returns why it cannot open `needed` more, with the limit and what would do; empty: it can.
std::string raise_descriptors(int needed);

/// The folder of a control group that this process is in.
struct ControlGroup {
  std::string folder;  ///< ends with a slash
  int version = 2;     ///< of control groups: 1 has other files than 2
};

/// The groups that bind this process in `controller` ("memory", "cpu"): its own, in each version that is mounted, and
/// all around it. A folder may be missing: a process inside a container sees the path of its group from outside. `root`
/// stands before /proc and /sys (tests).
std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& root = "");

/// The number that all of `text` is, in decimal digits.
std::optional<std::uint64_t> whole_number(std::string_view text);
/// The number a file consists of; none for "max" or where there is no such file.
std::optional<std::uint64_t> number_in(const std::string& path);
/// The number that stands after `key` in a file of lines "key number …".
std::optional<std::uint64_t> number_after(const std::string& path, std::string_view key);

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
