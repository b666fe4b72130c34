#include "command/run/places/rank_environment.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

#include "stretto/base/descriptor.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/cores.h"
#include "stretto/membership/hosts/interfaces.h"
#include "stretto/membership/launch.h"
#include "stretto/membership/masters/job_address.h"

extern char** environ;

namespace stretto::command {

namespace {

// What differs between the ranks, and what torchrun sets beside what Stretto looks at.
constexpr std::string_view kOfARank[] = {"RANK", "LOCAL_RANK", "ROLE_RANK"};
constexpr std::string_view kSetAnew[] = {"GROUP_RANK",      "GROUP_WORLD_SIZE", "ROLE_NAME",
                                         "ROLE_WORLD_SIZE", "MASTER_ADDR",      "MASTER_PORT"};

/// A socket with a port that nobody has, at an address of this host. Nothing keeps the port once the socket is closed,
/// as under torchrun, since a program may open it in a way that a port which is kept refuses.
class FreePort {
 public:
  explicit FreePort(const std::string& address, PortRange range = {}) {
    const bool is_v6 = address.find(':') != std::string::npos;
    socket_ = Descriptor(::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    int why = errno;
    for (int port = range.first; socket_.get() >= 0 && port <= range.last; ++port) {
      if (take(address, is_v6, port)) return;
      why = errno;
    }
    throw Failure({Errc::io, fmt::format("no free port of {} for rank 0: {}", address, std::strerror(why))});
  }
  int port() const { return port_; }

 private:
  bool take(const std::string& address, bool is_v6, int port) {
    sockaddr_in6 six{};
    sockaddr_in four{};
    six.sin6_family = AF_INET6;
    four.sin_family = AF_INET;
    six.sin6_port = four.sin_port = htons(static_cast<std::uint16_t>(port));
    auto* const name = is_v6 ? reinterpret_cast<sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&four);
    socklen_t bytes = is_v6 ? sizeof(six) : sizeof(four);
    void* const to = is_v6 ? static_cast<void*>(&six.sin6_addr) : static_cast<void*>(&four.sin_addr);
    if (::inet_pton(is_v6 ? AF_INET6 : AF_INET, address.c_str(), to) != 1) return false;
    if (::bind(socket_.get(), name, bytes) != 0 || ::getsockname(socket_.get(), name, &bytes) != 0) return false;
    port_ = ntohs(is_v6 ? six.sin6_port : four.sin_port);
    return true;
  }

  Descriptor socket_;
  int port_ = 0;
};

bool is_among(std::string_view variable, std::span<const std::string_view> variables) {
  return std::ranges::find(variables, variable) != variables.end();
}

}  // namespace

PlaceOfFirst open_place() {
  const std::string address = first_reachable_address().to_string();
  const FreePort master(address), meeting(address, wanted_ports());
  return {.address = address, .master_port = master.port(), .meeting_port = meeting.port()};
}

std::string new_run_id() {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}", kRunIdBegins, random(), random(), random());
}

int threads_of_a_rank(int ranks) {
  return std::max(1, num_cores() / ranks);
}

RankEnvironment::RankEnvironment(int ranks, int here, RanksOfHost on_host, const std::vector<std::string>& inherited)
    : first_(on_host.first) {
  bool threads = false;
  for (const std::string& entry : inherited) {
    const std::string_view variable = std::string_view(entry).substr(0, entry.find('='));
    threads |= variable == "OMP_NUM_THREADS";
    if (is_of_a_starter(variable) || is_among(variable, kOfARank) || is_among(variable, kSetAnew)) continue;
    common_.push_back(entry);
  }
  const PlaceOfFirst& first = on_host.place;
  const int port = first.master_port != 0 ? first.master_port : FreePort(first.address).port();
  const auto add = [this](const char* variable, const auto& value) {
    common_.push_back(fmt::format("{}={}", variable, value));
  };
  add("WORLD_SIZE", ranks);
  add("LOCAL_WORLD_SIZE", here);
  add("ROLE_WORLD_SIZE", ranks);
  add("GROUP_RANK", on_host.host);
  add("GROUP_WORLD_SIZE", on_host.hosts);
  add("ROLE_NAME", "default");
  add("MASTER_ADDR", first.address);
  add("MASTER_PORT", port);
  add("TORCHELASTIC_RUN_ID", on_host.run_id.empty() ? new_run_id() : on_host.run_id);
  add("TORCHELASTIC_RESTART_COUNT", 0);
  add("TORCHELASTIC_MAX_RESTARTS", 0);
  if (first.meeting_port != 0) {
    const JobAddress meeting{.host = first.address, .port = static_cast<std::uint16_t>(first.meeting_port)};
    add("STRETTO_MEETING", meeting.to_string());
  }
  if (!threads && here > 1) add("OMP_NUM_THREADS", threads_of_a_rank(here));
}

std::vector<std::string> RankEnvironment::of(int rank) const {
  std::vector<std::string> entries = common_;
  for (const std::string_view variable : kOfARank) {
    entries.push_back(fmt::format("{}={}", variable, variable == "LOCAL_RANK" ? rank - first_ : rank));
  }
  return entries;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

}  // namespace stretto::command
