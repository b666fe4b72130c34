#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stretto/transport/hosts/hello.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

/// As what a process listens.
struct DoorOptions {
  asio::ip::address address;     ///< of an interface of this host
  std::uint16_t first_port = 0;  ///< the first that is free of these; 0: any
  std::uint16_t last_port = 0;
  Token token{};  ///< a stranger with another one is not let in
  int rank = 0;   ///< of this process; a stranger that means another one is not let in
  /// Of the job. A process of a job with another number is let in for the meeting alone, where rank 0 tells it so.
  int ranks = 1;
  /// Is told, at most once a minute, how many strangers were not let in, and where the last one came from: on the
  /// network's thread. Empty: stderr.
  std::function<void(const std::string& line)> tell = {};
};

/// Connects to a door, at the first of these addresses that answers, and says hello there. On the network's thread;
/// `socket` outlives it.
asio::awaitable<asio::error_code> say_hello(asio::ip::tcp::socket& socket, std::vector<asio::ip::tcp::endpoint> at,
                                            Hello hello, Token token);

/// The same, again and again while there is no way to the host, as while a route is away: for as long as the kernel
/// tries where nothing answers, two minutes, or until `ended`. A host that refuses is there: the process has ended.
asio::awaitable<asio::error_code> say_hello_on_a_way(asio::ip::tcp::socket& socket, asio::ip::tcp::endpoint at,
                                                     Hello hello, Token token, std::function<bool()> ended);

/// The socket at which a process of a job listens, one a process. A stranger has five seconds for its hello, and at
/// most 64 of them are heard at a time; one that closes before its first byte is none. No memory is taken for what they
/// send, and the connection of one that is none of the job is closed.
class Door {
 public:
  /// Failure (Errc::unavailable): no port is free, or the address is not this host's.
  Door(NetworkThread& network, const DoorOptions& options);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  /// Where it listens.
  asio::ip::tcp::endpoint endpoint() const;

  /// Takes a connection that has said hello. Called on the network's thread.
  using Receive = std::function<void(const Hello& hello, asio::ip::tcp::socket socket)>;
  /// From now on `receive` takes those that come for `use`; those that have come are handed to it first. Null: they
  /// wait again, and when this returns no call is under way.
  void receive(Hello::Use use, Receive receive);

 private:
  class Impl;
  NetworkThread& network_;
  std::shared_ptr<Impl> impl_;
};

}  // namespace stretto
