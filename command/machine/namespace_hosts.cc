#include "command/machine/namespace_hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "command/machine/programs.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr Duration kPatience = std::chrono::minutes(1);

// What hosts.sh prints; as an Error where it fails.
Result<std::string> call(const NamespaceHosts& hosts, const std::vector<std::string>& words) {
  static const std::string kFailed = "failed\n";
  std::vector<std::string> command = {"bash", "-c", R"(bash "$0" "$@" 2>&1 || echo failed)", hosts.script()};
  command.insert(command.end(), words.begin(), words.end());
  auto said = run_program(command, hosts.environment(), kPatience);
  if (!said || !said->ends_with(kFailed)) return said;
  const std::string why = said->substr(0, said->size() - kFailed.size());
  return Error{Errc::unavailable, why.substr(0, why.find('\n'))};
}

}  // namespace

NamespaceHosts::NamespaceHosts(int hosts, const std::string& rate) {
  const auto said = [this](const std::vector<std::string>& words) {
    auto out = call(*this, words);
    if (!out) throw Failure({Errc::unavailable, "no hosts can be made on this machine: " + out.error().message});
    return *out;
  };
  std::vector<std::string> up = {"up", std::to_string(hosts)};
  if (!rate.empty()) up.push_back(rate);
  said(up);
  const auto open = [](const std::string& file) { return Descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC)); };
  for (int host = 1; host <= hosts; ++host) {
    const std::string of_process = fmt::format("/proc/{}/ns/", std::stoi(said({"pid", std::to_string(host)})));
    hosts_.push_back({of_process + "net", open(of_process + "net"), open(of_process + "uts")});
  }
}

NamespaceHosts::~NamespaceHosts() {
  (void)call(*this, {"down"});  // else they go with this process
}

std::string NamespaceHosts::script() const {
  return find_companion("hosts.sh");
}

std::vector<std::string> NamespaceHosts::environment() const {
  return {"HOSTS_STATE=" + state(), fmt::format("HOSTS_OWNER={}", ::getpid())};
}

void NamespaceHosts::enter(int host) const {
  const Host& into = hosts_[static_cast<std::size_t>(host)];
  if (::setns(into.into_network.get(), CLONE_NEWNET) == 0 && ::setns(into.into_names.get(), CLONE_NEWUTS) == 0) return;
  throw Failure({Errc::io, fmt::format("host {} cannot be entered: {}", host, std::strerror(errno))});
}

}  // namespace stretto::command
