#pragma once

#include <functional>
#include <memory>
#include <string>

#include "stretto/membership/views/master.h"
#include "stretto/membership/views/register.h"
#include "stretto/transport/hosts/door.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

/// The hooks by which a master's server asks its owner. Called on the network's thread.
struct MasterHooks {
  /// Ends the process of a member that the others go on without, where it is the owner's. Empty: nobody does.
  std::function<void(MemberNumber)> kill = {};
  /// Is told what a person should read, such as whom a view waits for. Empty: stderr.
  std::function<void(const std::string& line)> tell = {};
};

/// A master with what it needs in a real process: connections to the members, the register, the pool of batches and a
/// clock. Processes say who they are at a door (Hello::Use::member), and are told at once what the register holds. A
/// second process of a number is refused while the first is there. All of it runs on the network's thread.
class MasterServer {
 public:
  /// How long nothing happens before it is told who is waited for.
  static constexpr Duration kSilence = std::chrono::seconds(10);

  /// All outlive it.
  MasterServer(NetworkThread& network, Door& door, Register& reg, const MasterOptions& options, MasterHooks hooks);
  ~MasterServer();  ///< the members' connections end with it
  MasterServer(const MasterServer&) = delete;
  MasterServer& operator=(const MasterServer&) = delete;

  /// The process of a member has ended. Any thread but the network's.
  void lose(MemberNumber number);
  /// Its knowledge of the register. Any thread but the network's.
  Registered known();

 private:
  class Impl;
  NetworkThread& network_;
  Door& door_;
  std::shared_ptr<Impl> impl_;
};

}  // namespace stretto
