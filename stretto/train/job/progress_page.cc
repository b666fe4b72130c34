#include "stretto/train/job/progress_page.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "stretto/base/doorbell.h"
#include "stretto/base/error.h"
#include "stretto/imbalance/pace.h"

namespace stretto {
namespace {

void raise_to(std::atomic<std::uint64_t>& word, std::uint64_t value) {
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  while (seen < value && !word.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

void ProgressPage::applied(std::uint64_t batches, std::uint64_t rounds) {
  raise_to(batches_, batches);
  raise_to(rounds_, rounds);
}

void ProgressPage::started(TimePoint when) {
  std::int64_t not_yet = 0;
  start_.compare_exchange_strong(not_yet, when.since_start.count() | 1, std::memory_order_relaxed);
}

void ProgressPage::stop() {
  stopped_.store(1, std::memory_order_seq_cst);
  futex_wake(stopped_, 1, /*shared=*/true);
}

void ProgressPage::sleep_until(TimePoint when) {
  sleep_until_changed(when, {.word = &stopped_, .seen = 0});
}

std::optional<TimePoint> ProgressPage::start() const {
  const std::int64_t start = start_.load(std::memory_order_relaxed);
  if (start == 0) return std::nullopt;
  return TimePoint{Duration(start)};
}

bool ProgressPage::claim(Round round) {
  Round last = claimed_.load(std::memory_order_relaxed);
  return last <= round && claimed_.compare_exchange_strong(last, round + 1, std::memory_order_relaxed);
}

void ProgressPage::tell(const std::string& text) {
  if (print_.load(std::memory_order_relaxed)) {
    std::fprintf(stderr, "stretto: %s\n", text.c_str());
    return;
  }
  for (Line& line : lines_) {
    std::uint32_t empty = Line::empty;
    if (!line.state.compare_exchange_strong(empty, Line::writing, std::memory_order_acquire)) continue;
    const std::size_t length = std::min(text.size(), kLineBytes - 1);
    std::memcpy(line.text.data(), text.data(), length);
    line.text[length] = '\0';
    line.state.store(Line::ready, std::memory_order_release);
    return;
  }
}

std::optional<std::string> ProgressPage::take_line() {
  for (Line& line : lines_) {
    if (line.state.load(std::memory_order_acquire) != Line::ready) continue;
    std::string text = line.text.data();
    line.state.store(Line::empty, std::memory_order_release);
    return text;
  }
  return std::nullopt;
}

SharedProgressPage::SharedProgressPage() {
  void* memory = ::mmap(nullptr, sizeof(ProgressPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Failure(
        {Errc::unavailable, text("no ", sizeof(ProgressPage), " bytes of shared memory: ", std::strerror(errno))});
  }
  page_ = new (memory) ProgressPage;
}

SharedProgressPage::~SharedProgressPage() {
  ::munmap(page_, sizeof(ProgressPage));
}

}  // namespace stretto
