#include "command/run/places/host_list.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "command/cli/values.h"
#include "stretto/base/error.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

constexpr std::string_view kExample = "a,b:4";

/// A remote shell would take a name that begins with a dash for an option of its own.
bool is_name(std::string_view name) {
  return !name.empty() && name.front() != '-' && name.find_first_of(" \t\n:[]") == std::string_view::npos;
}

HostRanks parse_host(std::string_view option, const std::string& part) {
  const std::string expected = fmt::format("'{}' is no host: expected HOST, or HOST:N for N ranks", part);
  HostRanks host{.name = part};
  if (part.starts_with('[')) {  // an address of IPv6
    const std::size_t end = part.find(']');
    host.name = part.substr(1, end == std::string::npos ? end : end - 1);
    const std::string rest = end == std::string::npos ? "" : part.substr(end + 1);
    if (host.name.empty() || host.name.front() == '-' || end == std::string::npos ||
        (!rest.empty() && rest[0] != ':')) {
      reject(option, part, expected, "[fd77::1]:4");
    }
    if (!rest.empty()) {
      host.ranks = static_cast<int>(parse_integer(option, rest.substr(1), 1, JobMemory::kMaxRanks, "[fd77::1]:4"));
    }
    return host;
  }
  const std::size_t colon = part.find(':');
  host.name = part.substr(0, colon);
  if (!is_name(host.name)) reject(option, part, expected, kExample);
  if (colon == std::string::npos) return host;
  try {
    host.ranks = static_cast<int>(parse_integer(option, part.substr(colon + 1), 1, JobMemory::kMaxRanks, kExample));
  } catch (const UsageError&) {
    reject(option, part, fmt::format("expected HOST:N with N from 1 to {}", JobMemory::kMaxRanks), kExample);
  }
  return host;
}

}  // namespace

bool HostRanks::is_here() const {
  if (name == "localhost") return true;
  std::array<char, 256> own{};
  if (::gethostname(own.data(), own.size() - 1) != 0) return false;
  const std::string_view whole(own.data());
  return name == whole || name == whole.substr(0, whole.find('.'));
}

std::vector<HostRanks> parse_hosts(std::string_view option, const std::string& text) {
  std::vector<HostRanks> hosts;
  for (const std::string& part : split_list(text)) {
    hosts.push_back(parse_host(option, part));
    const std::string& name = hosts.back().name;
    if (std::ranges::count(hosts, name, &HostRanks::name) > 1) {
      reject(option, text, fmt::format("{} is named twice; expected it once, with the number of its ranks", name),
             fmt::format("{}:2", name));
    }
  }
  if (hosts.empty()) reject(option, text, "expected hosts, with commas between them", kExample);
  if (const int ranks = ranks_of(hosts); ranks > JobMemory::kMaxRanks) {
    reject(option, text, fmt::format("these are {} ranks; expected {} at most", ranks, JobMemory::kMaxRanks), kExample);
  }
  return hosts;
}

int ranks_of(const std::vector<HostRanks>& hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), 0,
                         [](int sum, const HostRanks& host) { return sum + host.ranks; });
}

std::vector<HostRanks> first_ranks(std::vector<HostRanks> hosts, int ranks) {
  for (HostRanks& host : hosts) {
    host.ranks = std::min(host.ranks, ranks);
    ranks -= host.ranks;
  }
  std::erase_if(hosts, [](const HostRanks& host) { return host.ranks == 0; });
  return hosts;
}

}  // namespace stretto::command
