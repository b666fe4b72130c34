#include <fmt/format.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include "command/bench/limits.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/cores.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

enum class Waiting { spinning, yielding, sleeping };

constexpr int kRoundsAtOnce = 100;
constexpr int kLooksAtOnce = 1 << 16;  // at the word, before the clock is looked at
constexpr Duration kTimeout = 10s;

// Whose turn it is. Each side's release store pairs with the other's acquire load.
using Turn = std::atomic<std::uint32_t>;
constexpr std::uint32_t kParent = 0, kChild = 1, kOver = 2;

void pass_to(Turn& turn, std::uint32_t whose, Waiting waiting) {
  turn.store(whose, std::memory_order_release);
  if (waiting == Waiting::sleeping) {
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&turn), FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
}

// Until it is not `whose` turn any more; false when it has been for too long.
bool wait_while(const Turn& turn, std::uint32_t whose, Waiting waiting) {
  const SteadyClock clock;
  const TimePoint deadline = clock.now() + kTimeout;
  do {
    for (int i = 0; i < kLooksAtOnce; ++i) {
      if (turn.load(std::memory_order_acquire) != whose) return true;
      if (waiting == Waiting::yielding) ::sched_yield();
      if (waiting == Waiting::sleeping) {
        const timespec second{1, 0};
        ::syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&turn), FUTEX_WAIT, whose, &second, nullptr, 0);
        if (clock.now() >= deadline) return false;
      }
    }
  } while (clock.now() < deadline);
  return false;
}

[[noreturn]] void answer(Turn& turn, Waiting waiting, int core, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before it could take us along
  try {
    pin_thread(std::span(&core, 1));
  } catch (const Failure&) {
    ::_exit(1);
  }
  while (wait_while(turn, kParent, waiting) && turn.load(std::memory_order_acquire) == kChild) {
    pass_to(turn, kParent, waiting);
  }
  ::_exit(0);
}

// This process on one core and one that answers on another, or on the same, and a word between them.
class PingPong {
 public:
  PingPong(Waiting waiting, int here, int there) : waiting_(waiting) {
    ::sched_getaffinity(0, sizeof(before_), &before_);
    pin_thread(std::span(&here, 1));
    void* memory = ::mmap(nullptr, sizeof(Turn), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Failure({Errc::unavailable, fmt::format("no memory: {}", std::strerror(errno))});
    turn_ = new (memory) Turn(kParent);
    const pid_t parent = ::getpid();
    child_ = ::fork();
    if (child_ == 0) answer(*turn_, waiting, there, parent);
    if (child_ < 0) {
      const int reason = errno;
      ::munmap(turn_, sizeof(Turn));
      throw Failure({Errc::io, fmt::format("cannot start a process: {}", std::strerror(reason))});
    }
  }
  ~PingPong() {
    pass_to(*turn_, kOver, waiting_);
    ::sched_setaffinity(0, sizeof(before_), &before_);
    if (lost_) ::kill(child_, SIGKILL);
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
    ::munmap(turn_, sizeof(Turn));
  }
  PingPong(const PingPong&) = delete;
  PingPong& operator=(const PingPong&) = delete;

  // Nanoseconds one way.
  double measure(Duration time) {
    run();  // the child is there by then
    const SteadyClock clock;
    const TimePoint begin = clock.now();
    TimePoint now = begin;
    int rounds = 0;
    do {
      run();
      rounds += kRoundsAtOnce;
      now = clock.now();
    } while (now - begin < time);
    return static_cast<double>((now - begin).count()) / rounds / 2;
  }

 private:
  void run() {
    for (int i = 0; i < kRoundsAtOnce; ++i) {
      pass_to(*turn_, kChild, waiting_);
      lost_ = !wait_while(*turn_, kChild, waiting_);
      if (lost_) throw Failure({Errc::timeout, "the process that this one hands over to does not answer"});
    }
  }

  const Waiting waiting_;
  Turn* turn_ = nullptr;
  pid_t child_ = -1;
  bool lost_ = false;
  cpu_set_t before_{};
};

}  // namespace

std::vector<Limit> handoff_limits() {
  const std::vector<int> cores = usable_cores();
  const auto limit = [](const std::string& name, Waiting waiting, std::vector<int> on) {
    return Limit{name, on.front() == on.back() ? 1 : 2, sizeof(Turn), "ns",
                 [waiting, on](Duration time) { return PingPong(waiting, on.front(), on.back()).measure(time); }};
  };
  std::vector<Limit> out;
  if (cores.size() > 1) out.push_back(limit("hand-off spin", Waiting::spinning, {cores[0], cores[1]}));
  out.push_back(limit("hand-off yield", Waiting::yielding, {cores[0]}));
  out.push_back(limit("hand-off futex", Waiting::sleeping, {cores[0]}));
  if (cores.size() > 1) out.push_back(limit("hand-off futex", Waiting::sleeping, {cores[0], cores[1]}));
  return out;
}

}  // namespace stretto::command
