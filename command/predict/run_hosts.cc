#include "command/predict/run_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stretto/base/error.h"
#include "stretto/observe/run_folder.h"
#include "stretto/simulate/network_spec.h"

namespace stretto::command {

SimulatedHosts hosts_of_run(const std::string& folder) {
  // The messages of so small a model take no time worth mentioning. A simulated run of a real model has it, too: it
  // does not say how large that model is.
  constexpr std::uint64_t kSmallModel = 4096;
  const std::string config = RunFolder::open(folder).or_throw().read("config.json").or_throw();
  const auto wrong = [&folder](const std::string& what) {
    return Failure({Errc::bad_input, fmt::format("'{}/config.json': {}", folder, what)});
  };
  const auto json = nlohmann::json::parse(config, nullptr, false);
  if (!json.is_object()) throw wrong("expected the JSON object that a run of stretto has written");
  SimulatedHosts hosts{.network = "", .model_bytes = kSmallModel};
  if (const auto bytes = json.find("model_bytes"); bytes != json.end()) {
    if (!bytes->is_number_unsigned())
      throw wrong(fmt::format("model_bytes: expected bytes; found {:.60}", bytes->dump()));
    hosts.model_bytes = std::max(bytes->get<std::uint64_t>(), kSmallModel);
  }
  if (const auto network = json.find("network"); network != json.end()) {
    if (!network->is_string()) throw wrong(fmt::format("network: expected a text; found {:.60}", network->dump()));
    hosts.network = *network;
  }
  try {
    parse_network(hosts.network);
  } catch (const UsageError& error) {
    throw wrong(error.what());
  }
  return hosts;
}

}  // namespace stretto::command
