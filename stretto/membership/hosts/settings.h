#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "stretto/base/clock.h"

namespace stretto {

/// Choices that all ranks of a job have to make alike, in words, by their names.
using Settings = std::map<std::string, std::string>;

/// The words for what can move messages between hosts; kMpi only where the process manager of an MPI has started the
/// ranks.
inline constexpr std::string_view kMpi = "mpi";
inline constexpr std::string_view kCarriers[] = {"tcp", "ucx", "auto", kMpi};

/// How the hosts of a job hear of each other.
struct BetweenHosts {
  Duration liveness{0};  ///< a host of which nothing comes for so long is lost
  std::string carrier;   ///< one of kCarriers

  Settings settings() const { return {{"between", carrier}, {"liveness", to_text(liveness)}}; }
};

/// As JoinOptions::liveness and between say it, where they are given; else as STRETTO_LIVENESS and STRETTO_BETWEEN say
/// it. Throws UsageError for a value that is none, under the name by which it was given.
BetweenHosts between_hosts(std::optional<Duration> liveness, const std::string& between);

}  // namespace stretto
