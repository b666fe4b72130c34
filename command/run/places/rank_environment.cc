#include "command/run/rank_environment.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string_view>

#include "stretto/base/descriptor.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/cores.h"
#include "stretto/membership/launch.h"

extern char** environ;

namespace stretto::command {

namespace {

constexpr const char* kAddress = "127.0.0.1";

// What differs between the ranks, and what torchrun sets beside what Stretto looks at.
constexpr std::string_view kOfARank[] = {"RANK", "LOCAL_RANK", "ROLE_RANK"};
constexpr std::string_view kSetAnew[] = {"GROUP_RANK",      "GROUP_WORLD_SIZE", "ROLE_NAME",
                                         "ROLE_WORLD_SIZE", "MASTER_ADDR",      "MASTER_PORT"};

/// A port that nobody has: rank 0 opens it. Nothing keeps it until then, as under torchrun, since a program may open it
/// in a way that a port which is kept refuses.
int free_port() {
  const Descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (probe.get() < 0 || ::bind(probe.get(), name, bytes) != 0 || ::getsockname(probe.get(), name, &bytes) != 0) {
    throw Failure({Errc::io, fmt::format("no free port of {} for MASTER_PORT: {}", kAddress, std::strerror(errno))});
  }
  return ntohs(address.sin_port);
}

/// That of no other job.
std::string new_run_id() {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}", kRunIdBegins, random(), random(), random());
}

bool is_among(std::string_view variable, std::span<const std::string_view> variables) {
  return std::ranges::find(variables, variable) != variables.end();
}

}  // namespace

int threads_of_a_rank(int ranks) {
  return std::max(1, num_cores() / ranks);
}

RankEnvironment::RankEnvironment(int ranks, const std::vector<std::string>& inherited) {
  bool threads = false;
  for (const std::string& entry : inherited) {
    const std::string_view variable = std::string_view(entry).substr(0, entry.find('='));
    threads |= variable == "OMP_NUM_THREADS";
    if (is_of_a_starter(variable) || is_among(variable, kOfARank) || is_among(variable, kSetAnew)) continue;
    common_.push_back(entry);
  }
  for (const char* variable : {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"}) {
    common_.push_back(fmt::format("{}={}", variable, ranks));
  }
  common_.insert(common_.end(),
                 {"GROUP_RANK=0", "GROUP_WORLD_SIZE=1", "ROLE_NAME=default", fmt::format("MASTER_ADDR={}", kAddress),
                  fmt::format("MASTER_PORT={}", free_port()), "TORCHELASTIC_RUN_ID=" + new_run_id(),
                  "TORCHELASTIC_RESTART_COUNT=0", "TORCHELASTIC_MAX_RESTARTS=0"});
  if (!threads && ranks > 1) common_.push_back(fmt::format("OMP_NUM_THREADS={}", threads_of_a_rank(ranks)));
}

std::vector<std::string> RankEnvironment::of(int rank) const {
  std::vector<std::string> entries = common_;
  for (const std::string_view variable : kOfARank) entries.push_back(fmt::format("{}={}", variable, rank));
  return entries;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

}  // namespace stretto::command
