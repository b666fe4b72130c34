#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace stretto::command {

/// What `work` returns for each of 0 … count − 1, in that order. So many processes take one after the other, each on a
/// core of its own; how many there are changes no result. Shows on standard error how far it is, as `what` of so many
/// `units`. Throws what `work` throws as UsageError, and Interrupted.
std::vector<nlohmann::json> in_processes(int processes, std::size_t count,
                                         const std::function<nlohmann::json(std::size_t)>& work, const char* what,
                                         const char* units);

}  // namespace stretto::command
