#include "command/bench/limits/limits.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <numeric>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/base/machine/cores.h"
#include "stretto/kernel/combine.h"

namespace stretto::command {
namespace {

constexpr std::uint64_t kFaultBytes = 16 << 20;

// Bytes per nanosecond, which are GB/s, of one pass after the other over this thread's own memory.
template <class Pass>
double rate(std::uint64_t bytes, Duration time, Pass&& pass) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  TimePoint now = begin;
  double passed = 0;
  do {
    pass();
    passed += static_cast<double>(bytes);
    now = clock.now();
  } while (now - begin < time);
  return passed / static_cast<double>((now - begin).count());
}

// The sum of the return values of `work` on that many cores at once. `work` gets a function that returns when all are
// ready, to be called between preparing memory and measuring.
double on_cores(int cores, const std::function<double(const std::function<void()>&)>& work) {
  const std::vector<int> usable = usable_cores();
  std::barrier ready(cores);
  std::vector<double> rates(static_cast<std::size_t>(cores));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    threads.emplace_back([&, i] {
      // Where it may not choose its core it goes without: the rate says so.
      try {
        pin_thread(std::span(usable).subspan(i, 1));
      } catch (const Failure&) {
      }
      rates[i] = work([&ready] { ready.arrive_and_wait(); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

Limit copying(int cores, std::uint64_t bytes) {
  return {"memcpy", cores, bytes, "GB/s", [=](Duration time) {
            return on_cores(cores, [&](const std::function<void()>& all_ready) {
              const std::vector<std::byte> source(bytes, std::byte{1});
              std::vector<std::byte> copy(bytes, std::byte{2});
              all_ready();
              return rate(bytes, time, [&] {
                std::memcpy(copy.data(), source.data(), bytes);
                asm volatile("" : : "r"(copy.data()) : "memory");  // each copy has to be made
              });
            });
          }};
}

Limit summing(int cores, std::uint64_t bytes, int num_sources) {
  return {fmt::format("sum of {}", num_sources), cores, bytes, "GB/s", [=](Duration time) {
            return on_cores(cores, [&](const std::function<void()>& all_ready) {
              const std::size_t elements = bytes / sizeof(float) / static_cast<std::size_t>(num_sources);
              const std::vector<std::vector<float>> memory(static_cast<std::size_t>(num_sources),
                                                           std::vector<float>(elements, 1.0f));
              const std::vector<std::span<const float>> sources(memory.begin(), memory.end());
              std::vector<float> sum(elements);
              all_ready();
              return rate(bytes, time, [&] { sum_sources(sum, sources); });
            });
          }};
}

// Nanoseconds a page. Huge pages are kept out of it: ranks share memory page by page.
double fault_in(int flags, Duration time) {
  const SteadyClock clock;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  Duration taken{0};
  std::uint64_t pages = 0;
  do {
    void* memory = ::mmap(nullptr, kFaultBytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Failure({Errc::unavailable, fmt::format("no memory: {}", std::strerror(errno))});
    ::madvise(memory, kFaultBytes, MADV_NOHUGEPAGE);
    auto* bytes = static_cast<volatile char*>(memory);
    const TimePoint begin = clock.now();
    for (std::size_t i = 0; i < kFaultBytes; i += page) bytes[i] = 1;
    taken += clock.now() - begin;
    pages += kFaultBytes / page;
    ::munmap(memory, kFaultBytes);
  } while (taken < time);
  return static_cast<double>(taken.count()) / static_cast<double>(pages);
}

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

std::vector<Limit> memory_limits(std::span<const std::uint64_t> sizes, std::span<const int> sources) {
  std::vector<int> cores = {1};
  if (const int all = static_cast<int>(usable_cores().size()); all > 1) cores.push_back(all);
  std::vector<Limit> out;
  for (const int n : cores) {
    for (const std::uint64_t bytes : sizes) out.push_back(copying(n, bytes));
  }
  for (const int k : sources) {
    for (const int n : cores) {
      for (const std::uint64_t bytes : sizes) out.push_back(summing(n, bytes, k));
    }
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  out.push_back({"fault private", 1, page, "ns", [](Duration time) { return fault_in(MAP_PRIVATE, time); }});
  out.push_back({"fault shared", 1, page, "ns", [](Duration time) { return fault_in(MAP_SHARED, time); }});
  return out;
}

void sum_sources(std::span<float> out, std::span<const std::span<const float>> sources) {
  std::vector<const std::byte*> bytes;
  for (const std::span<const float> source : sources) bytes.push_back(std::as_bytes(source).data());
  const Combination tree = Combination::tree(static_cast<int>(sources.size()));
  combine(tree, DataType::float32, ReduceOp::sum, std::as_writable_bytes(out).data(), bytes, out.size());
}

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
