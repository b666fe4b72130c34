#include "stretto/papers/servers/server_options.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "stretto/base/error.h"

namespace stretto {

std::string ServerOptions::to_string() const {
  std::string words;
  switch (mode) {
    case ServerMode::sync: words = "sync"; break;
    case ServerMode::async: words = "async"; break;
    case ServerMode::ssp: words = text("ssp of ", staleness, " steps"); break;
    case ServerMode::k_sync: words = text("k-sync of ", enough, enough == 1 ? " gradient" : " gradients"); break;
  }
  if (servers == 0) return words + ", every rank a server";
  return words + text(", ", servers, dedicated ? " dedicated" : "", servers == 1 ? " server" : " servers");
}

void check_server_options(const ServerOptions& options, int ranks) {
  if (options.servers < 0 || options.servers > ranks) {
    throw UsageError(text("parameter server: ", options.servers, " servers among ", ranks,
                          ranks == 1 ? " rank" : " ranks", "; expected 1 to ", ranks));
  }
  if (options.dedicated && options.num_workers(ranks) == 0) {
    throw UsageError(text("parameter server: all ", ranks,
                          " ranks are dedicated servers, and none is left to compute gradients; expected at most ",
                          ranks - 1, " servers"));
  }
  const int workers = options.num_workers(ranks);
  if (options.mode == ServerMode::k_sync && (options.enough < 1 || options.enough > workers)) {
    throw UsageError(text("k-sync: a version of ", options.enough, " gradients, where ", workers,
                          workers == 1 ? " rank computes" : " ranks compute", " them; expected K from 1 to ", workers));
  }
}

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
