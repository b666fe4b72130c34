#include "command/predict/run_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stretto/base/error.h"
#include "stretto/observe/run_folder.h"

namespace stretto::command {

SimulatedHosts hosts_of_run(const std::string& folder) {
  // The messages of so small a model take no time worth mentioning. A simulated run of a real model has it, too: it
  // does not say how large that model is.
  constexpr std::uint64_t kSmallModel = 4096;
  const std::string config = RunFolder::open(folder).or_throw().read("config.json").or_throw();
  try {
    const auto json = nlohmann::json::parse(config);
    return {.network = json.value("network", ""),
            .model_bytes = std::max(json.value("model_bytes", std::uint64_t{0}), kSmallModel)};
  } catch (const nlohmann::json::exception& error) {
    throw Failure(
        {Errc::bad_input, fmt::format("'{}/config.json' is not that of a run of stretto: {}", folder, error.what())});
  }
}

}  // namespace stretto::command
