#include "stretto/observe/recent_steps.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "stretto/base/error.h"

namespace stretto {
RecentSteps::RecentSteps(int ranks) : ranks_(ranks) {
  const std::size_t bytes = static_cast<std::size_t>(ranks) * sizeof(Lane);
  // A new mapping is all zeros: lanes without a step. No constructor runs over them, which would touch every page.
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Failure({Errc::unavailable, text("no ", bytes, " bytes of shared memory: ", std::strerror(errno))});
  }
  lanes_ = static_cast<Lane*>(memory);
}

RecentSteps::~RecentSteps() {
  ::munmap(lanes_, static_cast<std::size_t>(ranks_) * sizeof(Lane));
}

void RecentSteps::add(int rank, double seconds) {
  Lane& lane = lanes_[rank];
  const std::uint64_t number = lane.count.load(std::memory_order_relaxed);
  lane.steps[number % kKept].store(static_cast<float>(seconds), std::memory_order_release);
  lane.count.store(number + 1, std::memory_order_release);
}

std::uint64_t RecentSteps::read(int rank, std::uint64_t from, std::vector<float>& steps) const {
  const Lane& lane = lanes_[rank];
  const std::uint64_t end = lane.count.load(std::memory_order_acquire);
  if (end <= from) return from;
  const std::uint64_t first = std::max(from, end - std::min<std::uint64_t>(end, kKept));
  std::vector<float> read;
  // Acquire: a step of a later lap, if one is read here, shows below in the count of steps.
  for (std::uint64_t i = first; i < end; ++i) {
    read.push_back(lane.steps[i % kKept].load(std::memory_order_acquire));
  }
  // The rank may have gone on meanwhile. It writes step n before it counts n, over step n − kKept.
  const std::uint64_t now = lane.count.load(std::memory_order_acquire);
  const std::uint64_t whole = now < kKept ? 0 : now + 1 - kKept;
  const std::uint64_t lost = std::min(end, std::max(first, whole)) - first;
  steps.insert(steps.end(), read.begin() + static_cast<std::ptrdiff_t>(lost), read.end());
  return end;
}

}  // namespace stretto
