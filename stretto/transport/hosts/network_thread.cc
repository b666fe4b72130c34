#include "stretto/transport/hosts/network_thread.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <future>

#include "stretto/base/error.h"

namespace stretto {
namespace {

/// By descriptor, the inode of the socket that a forked child closes; 0: none. What is out of date has another one.
constexpr int kMostDescriptors = 1 << 16;
std::array<std::atomic<ino_t>, kMostDescriptors> inodes{};
std::atomic<int> highest{-1};

ino_t inode_of(int descriptor) {
  struct stat found {};
  return ::fstat(descriptor, &found) == 0 && S_ISSOCK(found.st_mode) ? found.st_ino : 0;
}

void close_in_child() {
  for (int descriptor = 0; descriptor <= highest.load(); ++descriptor) {
    const ino_t inode = inodes[static_cast<std::size_t>(descriptor)].load();
    if (inode != 0 && inode == inode_of(descriptor)) ::close(descriptor);
  }
}

}  // namespace

void keep_from_children(int socket) {
  static const int kWatched = ::pthread_atfork(nullptr, nullptr, close_in_child);
  (void)kWatched;
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  if (socket < 0 || socket >= kMostDescriptors) return;
  inodes[static_cast<std::size_t>(socket)].store(inode_of(socket));
  for (int before = highest.load(); before < socket && !highest.compare_exchange_weak(before, socket);) {
  }
}

class NetworkThread::Running {
 public:
  explicit Running(asio::io_context& io) : io_(io), work_(io.get_executor()), thread_([&io] { io.run(); }) {}
  ~Running() {
    work_.reset();
    io_.stop();
    thread_.join();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  bool here() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  asio::io_context& io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

NetworkThread::NetworkThread() : io_(std::make_unique<asio::io_context>()), running_(std::make_unique<Running>(*io_)) {}

NetworkThread::~NetworkThread() = default;

void NetworkThread::run(const std::function<void()>& work) {
  STRETTO_CHECK(!running_->here(), "the thread of the network waits for itself");
  std::packaged_task<void()> task(work);
  asio::post(*io_, [&task] { task(); });
  task.get_future().get();
}

}  // namespace stretto
