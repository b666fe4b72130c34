#include "stretto/membership/hosts/bulletins/at_exit.h"

#include <unistd.h>

#include <mutex>
#include <utility>
#include <vector>

namespace stretto {
namespace {

class CallsAtExit {
 public:
  ~CallsAtExit() {
    if (process_ != ::getpid()) return;
    for (const auto& call : calls_) call();
  }
  void add(std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }

 private:
  const pid_t process_ = ::getpid();
  std::mutex mutex_;
  std::vector<std::function<void()>> calls_;
};

}  // namespace

void at_exit_of_process(std::function<void()> call) {
  static CallsAtExit all;
  all.add(std::move(call));
}

}  // namespace stretto
