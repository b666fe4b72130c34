#include "stretto/transport/hosts/network_thread.h"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <future>

#include "stretto/base/error.h"

namespace stretto {

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
