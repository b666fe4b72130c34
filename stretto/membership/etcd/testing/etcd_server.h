#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "stretto/membership/etcd/etcd.h"
#include "stretto/observe/temporary_folder.h"

namespace stretto {

/// An etcd of one member on this host, for tests, with its data in a folder of its own.
class EtcdServer {
 public:
  /// Whether this machine has etcd.
  static bool is_there();

  EtcdServer();  ///< returns when it answers
  ~EtcdServer();
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  /// Of a register in it.
  EtcdAddress address(const std::string& name) const { return {.servers = {server()}, .name = name}; }
  std::string server() const { return text("127.0.0.1:", port_); }
  void signal(int number) const;
  /// Ends it, with what it has written.
  void end();
  /// Starts it again, with that.
  void start();

 private:
  const TemporaryFolder folder_;
  const std::uint16_t port_, peer_port_;
  pid_t process_ = 0;
};

}  // namespace stretto
