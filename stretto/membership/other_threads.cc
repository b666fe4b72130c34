#include "stretto/membership/other_threads.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "stretto/base/clock.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

/// Calls `visit` with the state letter of each other thread (proc(5)): R runs or would, S sleeps.
template <class Visit>
void for_each_other_thread(Visit&& visit) {
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    if (task.path().filename() == std::to_string(syscall(SYS_gettid))) continue;
    std::ifstream file(task.path() / "stat");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    const auto name_end = line.rfind(')');  // the name may hold anything
    if (name_end != std::string::npos && name_end + 2 < line.size()) visit(line[name_end + 2]);
  }
}

}  // namespace

int num_other_threads() {
  int count = 0;
  for_each_other_thread([&](char) { ++count; });
  return count;
}

bool other_threads_sleep() {
  const SteadyClock clock;
  for (const TimePoint end = clock.now() + 1s;; std::this_thread::sleep_for(1ms)) {
    bool running = false;
    for_each_other_thread([&](char state) { running |= state == 'R'; });
    if (!running) return true;
    if (clock.now() > end) return false;
  }
}

}  // namespace stretto
