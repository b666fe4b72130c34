#pragma once

#include <functional>
#include <string>
#include <vector>

namespace stretto::fuzz {

/// Something that reads data of a peer or a file.
struct Target {
  std::string name;
  std::vector<std::string> inputs;  ///< as they are in earnest: `read` takes each
  /// Reads an input. Returns whether it has taken it; throws UsageError or Failure, or returns false, where it has not.
  std::function<bool(const std::string& input)> read;
};

/// All of them. Files are written below `folder`.
std::vector<Target> targets(const std::string& folder);

/// Targets whose data comes from ranks of other hosts; targets() has them, too.
std::vector<Target> targets_between_hosts();

/// A target that writes beyond its memory for one input in some thousands: the sanitizers must find it.
Target planted_overflow();

}  // namespace stretto::fuzz
