#pragma once

// Asio does not see that clang has coroutines beside this standard library.
#if defined(__clang__) && !defined(ASIO_HAS_CO_AWAIT)
#define ASIO_HAS_CO_AWAIT 1
#define ASIO_HAS_STD_COROUTINE 1
#endif

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <thread>

namespace stretto {

/// The thread of a process that waits for the network: for connections, for bytes, and for room to send some. It sleeps
/// in the kernel, and needs neither engine nor application.
class NetworkThread {
 public:
  NetworkThread();
  ~NetworkThread();  ///< after all that waits by it
  NetworkThread(const NetworkThread&) = delete;
  NetworkThread& operator=(const NetworkThread&) = delete;

  asio::io_context& io() { return *io_; }
  /// Runs `work` on the thread, and returns when it has run: whatever was begun there before is over by then. Throws
  /// what it throws. Requires: not called on the thread.
  void run(const std::function<void()>& work);

 private:
  class Running;
  std::unique_ptr<asio::io_context> io_;
  std::unique_ptr<Running> running_;
};

/// Has programs that this process starts, and processes that it forks, have no part in a socket, which would look alive
/// as long as one of them does (loaders of data outlive their rank). Any thread.
void keep_from_children(int socket);

}  // namespace stretto
