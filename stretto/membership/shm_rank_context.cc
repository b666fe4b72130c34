#include "stretto/membership/shm_rank_context.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <mutex>
#include <string_view>
#include <utility>

#include "stretto/membership/rank_end.h"

namespace stretto {
namespace {

/// Memory that is not there in a process which this one forks.
struct Kept {
  std::atomic<const std::byte*> begin{nullptr}, end{nullptr};
};
std::array<Kept, 64> all_kept;  // for the signal handler, which has no object; of more it says nothing
std::mutex keeping;             // of threads that write there

void on_fault(int signal, siginfo_t* info, void*) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  for (const Kept& kept : all_kept) {
    if (at >= kept.begin && at < kept.end) end_forked_child();
  }
  std::signal(signal, SIG_DFL);  // the access is repeated, and ends the process
}

void watch_memory() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

/// Takes care that a process which this rank forks cannot act as the rank: `memory`, of a world, is not there in such
/// a process, and the first access to it prints a line that says so and ends that process with status 1.
void keep_from_forked_children(std::span<std::byte> memory) {
  static const int watches = pthread_atfork(nullptr, nullptr, watch_memory);
  (void)watches;
  madvise(memory.data(), memory.size(), MADV_DONTFORK);
  const std::lock_guard lock(keeping);
  const auto free = std::ranges::find_if(all_kept, [](const Kept& kept) { return kept.end == nullptr; });
  if (free == all_kept.end()) return;
  free->begin = memory.data();
  free->end = memory.data() + memory.size();
}

void forget(std::span<std::byte> memory) {
  const std::lock_guard lock(keeping);
  for (Kept& kept : all_kept) {
    if (kept.begin == memory.data()) kept.end = nullptr;
  }
}

}  // namespace

static_assert(RankContext::kNumCounters <= JobMemory::kNumCounters);

MemoryRankContext::MemoryRankContext(JobMemory& memory, std::function<void(const RankMessage&)> say)
    : SayingRankContext(std::move(say)), memory_(memory) {
  keep_from_forked_children(memory.mapped());
}

MemoryRankContext::~MemoryRankContext() {
  forget(memory_.mapped());
}

void SayingRankContext::report(std::string text) {
  if (std::exchange(reported_, true)) throw UsageError(second_report(rank()));
  say_({RankMessage::Kind::report, std::move(text)});
}

void SayingRankContext::complain(const Error& error) {
  say_(message_of(error, rank()));
}

ShmRankContext::ShmRankContext(JobMemory& memory, int rank, std::function<void(const RankMessage&)> say)
    : MemoryRankContext(memory, std::move(say)), transport_(memory, rank) {
  for (int i = 0; i < kNumCounters; ++i) counters_.emplace_back(memory.counter(i));
}

void end_forked_child() {
  constexpr std::string_view kLine =
      "stretto: a process that a rank has forked went on in the function of the rank: it has to end with _exit() or "
      "exec() before that returns, and cannot use what belongs to the job\n";
  if (write(STDERR_FILENO, kLine.data(), kLine.size()) < 0) _exit(1);
  _exit(1);
}

}  // namespace stretto
