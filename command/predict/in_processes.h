#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace stretto::command {

/// Keeps this process to one core, another one for each number: a simulation's ranks are threads of which one runs at a
/// time, and on one core they hand over to each other in half the time that it takes between two.
void stay_on_a_core(int process);

/// The results of `work` for each of 0 … count − 1, in that order. So many processes take one after the other, each on
/// a core of its own; how many there are changes no result. Shows on standard error how far it is, as `what` of so many
/// `units`. Throws what `work` throws as UsageError or std::bad_alloc, and Interrupted.
std::vector<nlohmann::json> in_processes(int processes, std::size_t count,
                                         const std::function<nlohmann::json(std::size_t)>& work, const char* what,
                                         const char* units);

}  // namespace stretto::command
