#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/membership/views/given_places.h"
#include "stretto/membership/views/master.h"
#include "stretto/membership/views/register.h"
#include "stretto/transport/hosts/door.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

/// The hooks by which a master's server asks its owner. Called on the network's thread.
struct MasterHooks {
  /// Ends the process of a member that the others go on without, where it is the owner's. Empty: nobody does.
  std::function<void(MemberNumber)> kill = {};
  /// Likewise that of a number by which nobody has come, once the job has ended.
  std::function<void(MemberNumber)> not_come = {};
  /// Is told what a person should read, such as whom a view waits for. Empty: stderr.
  std::function<void(const std::string& line)> tell = {};
};

/// The options of a server beside those of its master.
struct MasterServerOptions {
  MasterOptions master = {};
  int places = 1;  ///< GivenPlaces: processes at a time
  int given = 0;   ///< so many have theirs already
  /// A master before this one may have given as many numbers as there are places beyond those of the newest view.
  bool is_next = false;
  std::vector<std::string> program = {};  ///< JobBeside::program
  /// A host is lost, with all processes for which it has asked for numbers, whose process that has asked, or its kernel
  /// in the place of one that stands still, is silent for so long (Line::is_silent()). Zero: none ever is.
  Duration liveness = Duration(0);
  bool reads_reports = false;  ///< reports() are asked for: members that report are let in
  bool has_hosts = false;      ///< members may be on several: the door can be reached from others
  /// Processes are told that so long another master may come to this address where this one is gone. Zero: none will.
  Duration patience = Duration(0);
};

/// A master with what it needs in a real process: connections to the members, the register, the pool of batches and a
/// clock. Processes come to a door (Hello::Use::member); of another version they are refused. Members say who they are,
/// and are told at once what the register holds; a second process of a number is refused while the first is there. One
/// whose connection has ended without its having closed it may make another one within the liveness, and is lost after
/// that. Others ask for numbers, for themselves or for processes that they start, look at the job, and send members
/// away. Each of them hears a beat ten times within the liveness. All of it runs on the network's thread.
class MasterServer {
 public:
  /// How long nothing happens before it is told who is waited for.
  static constexpr Duration kSilence = std::chrono::seconds(10);

  /// All outlive it.
  MasterServer(NetworkThread& network, Door& door, Register& reg, const MasterServerOptions& options,
               MasterHooks hooks);
  ~MasterServer();  ///< the members' connections end with it
  MasterServer(const MasterServer&) = delete;
  MasterServer& operator=(const MasterServer&) = delete;

  /// The process of a member has ended. Any thread but the network's.
  void lose(MemberNumber number);
  /// A number and a place for a process of the owner's; nothing: all are taken. Any thread but the network's.
  std::optional<GivenPlaces::Given> give_place(std::optional<int> wish);
  /// Has the member leave. Any thread but the network's.
  void send_away(MemberNumber number);
  /// Its knowledge of the register. Any thread but the network's.
  Registered known();
  /// The reports of processes as members, by their numbers, as the register has them. Any thread but the network's.
  Result<std::map<MemberNumber, std::string>> reports();
  /// How many members, and others that look at the job, are connected. Any thread but the network's.
  std::size_t visitors();
  /// From then on another master may be in the place of this one, as long as this is not called again: it says no beat,
  /// so that processes look for another one, and takes nobody for lost whose connection ends. Never, where it is not
  /// called. Any thread but the network's.
  void hold_office(TimePoint until);

 private:
  class Impl;
  NetworkThread& network_;
  Door& door_;
  std::shared_ptr<Impl> impl_;
};

}  // namespace stretto
