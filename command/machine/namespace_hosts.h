#pragma once

#include <string>
#include <vector>

#include "stretto/base/descriptor.h"
#include "stretto/observe/temporary_folder.h"

namespace stretto::command {

/// Several hosts on this machine: network namespaces that hosts.sh joins by a bridge. Gone with the object, and with
/// this process. All else is this machine's: cores, memory, files, clock.
class NamespaceHosts {
 public:
  /// `rate`: of each host's link, both ways, as tc writes it ("1gbit"); empty: not limited. Throws Failure,
  /// Errc::unavailable, where they cannot be made.
  NamespaceHosts(int hosts, const std::string& rate);
  ~NamespaceHosts();
  NamespaceHosts(const NamespaceHosts&) = delete;
  NamespaceHosts& operator=(const NamespaceHosts&) = delete;

  int size() const { return static_cast<int>(hosts_.size()); }
  /// Ranks go to hosts in blocks.
  int host_of(int rank, int ranks) const { return rank * size() / ranks; }
  /// From now on the calling thread, and what it starts, has the network and the name of this host, 0 … size() − 1.
  /// Throws Failure.
  void enter(int host) const;
  /// The file of a host's network namespace, for setns().
  const std::string& network(int host) const { return hosts_[static_cast<std::size_t>(host)].network; }
  /// An address of host 0, "host:port", at which nothing listens.
  std::string meeting() const { return "10.77.0.1:4711"; }
  /// hosts.sh, which starts programs on the hosts, h1 to hN, with environment().
  std::string script() const;
  std::vector<std::string> environment() const;

 private:
  std::string state() const { return folder_.path() + "/hosts"; }

  struct Host {
    std::string network;
    Descriptor into_network, into_names;
  };

  const TemporaryFolder folder_;
  std::vector<Host> hosts_;
};

}  // namespace stretto::command
