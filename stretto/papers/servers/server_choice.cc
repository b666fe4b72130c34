#include "stretto/papers/servers/server_choice.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "stretto/base/error.h"

namespace stretto {
namespace {

std::optional<std::uint64_t> whole_number(const std::string& words) {
  std::uint64_t value = 0;
  const char* end = words.data() + words.size();
  const auto [at, error] = std::from_chars(words.data(), end, value);
  if (words.empty() || at != end || error != std::errc()) return std::nullopt;
  return value;
}

/// A whole number that follows the name of an algorithm.
std::uint64_t argument_of(const char* name, const char* what, const std::string& argument, const char* example) {
  if (const auto value = whole_number(argument)) return *value;
  throw UsageError(
      text("algorithm '", name, argument.empty() ? "" : ":", argument, "': expected ", what, ", as in ", example));
}

std::uint64_t staleness_of(const std::string& argument) {
  return argument_of("ssp", "a whole number of steps, from 0", argument, "ssp:3");
}

int enough_of(const std::string& argument) {
  const std::uint64_t k = argument_of("k-sync", "a whole number of gradients, from 1", argument, "k-sync:6");
  return static_cast<int>(std::min<std::uint64_t>(k, std::numeric_limits<int>::max()));
}

}  // namespace

ServerOptions server_options(ServerMode mode, const std::string& argument, const AlgorithmOptions& said) {
  ServerOptions server{.mode = mode};
  if (mode == ServerMode::ssp) server.staleness = staleness_of(argument);
  if (mode == ServerMode::k_sync) server.enough = enough_of(argument);
  if (!said.given("servers")) return server;
  std::string servers = said.word("servers", "");
  constexpr std::string_view kDedicated = "dedicated:";
  server.dedicated = servers.starts_with(kDedicated);
  if (server.dedicated) servers.erase(0, kDedicated.size());
  const auto count = whole_number(servers);
  if (!count || *count == 0) {
    throw UsageError(text("servers ", said.word("servers", ""),
                          ": expected a number of ranks, from 1, as in servers 2 or servers dedicated:1"));
  }
  server.servers = static_cast<int>(std::min<std::uint64_t>(*count, std::numeric_limits<int>::max()));
  return server;
}

std::string dedicated_servers(const AlgorithmOptions& said) {
  const std::string servers = said.word("servers", "");
  return servers.starts_with("dedicated") ? "servers " + servers : "";
}

}  // namespace stretto
