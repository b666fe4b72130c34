#include "stretto/imbalance/pace.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto {
namespace {

/// By default Linux wakes a thread up to 50 µs late. The machine that is emulated ends its steps on time.
void wake_precisely() {
  thread_local const bool precise = ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL) == 0;
  static_cast<void>(precise);
}

Duration stretched(Duration duration, double factor) {
  return factor == 1 ? duration : Duration{std::llround(static_cast<double>(duration.count()) * factor)};
}

}  // namespace

Duration paced_step_time(Duration pace, std::uint64_t units, const ImbalanceDraw& draw) {
  return stretched(pace * static_cast<std::int64_t>(units), draw.factor) + draw.delay;
}

void sleep_until_changed(TimePoint when, FutexWait unless) {
  wake_precisely();
  const SteadyClock clock;
  for (TimePoint now = clock.now(); now < when && unless.word->load(std::memory_order_seq_cst) == unless.seen;
       now = clock.now()) {
    futex_sleep(unless, 1, when - now, /*shared=*/true);
  }
}

void sleep_until(TimePoint when) {
  wake_precisely();
  const auto nanoseconds = when.since_start.count();
  timespec until{};
  until.tv_sec = static_cast<time_t>(nanoseconds / 1'000'000'000);
  until.tv_nsec = nanoseconds % 1'000'000'000;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

Pacer::Pacer(Duration pace, const Clock& clock, std::function<void(TimePoint)> sleep)
    : pace_(pace), clock_(clock), sleep_(std::move(sleep)), begin_(clock.now()) {
  if (pace < Duration::zero())
    throw UsageError(text("pace ", pace.count(), " ns: expected 0 (none) or more, such as 50us"));
}

void Pacer::begin() {
  begin_ = clock_.now();
  slept_ = Duration(0);
}

void Pacer::reach(double share, std::uint64_t units, const ImbalanceDraw& draw) {
  const Duration all = stretched(pace_ * static_cast<std::int64_t>(units), draw.factor);
  const TimePoint until = begin_ + stretched(all, share), now = clock_.now();
  if (until <= now) return;
  sleep_(until);
  slept_ += clock_.now() - now;
}

PacedStep Pacer::end(std::uint64_t units, const ImbalanceDraw& draw) {
  const TimePoint computed = clock_.now();
  PacedStep step{.begin = begin_, .computed = computed - begin_ - slept_, .paced = slept_};
  // A factor below 1 shortens the pace, never the real computation.
  const Duration asked = pace_ * static_cast<std::int64_t>(units);
  const Duration target = std::max(stretched(std::max(asked, step.computed), draw.factor), step.computed);
  if (pace_ > Duration::zero()) {
    total_computed_ += step.computed;
    total_target_ += target;
    if (step.computed > stretched(asked, draw.factor)) ++overruns_;
  }
  const TimePoint until = begin_ + target + draw.delay;
  if (until <= computed) return step;
  sleep_(until);
  // The time overslept counts to the part that was slept last.
  const TimePoint woken = clock_.now();
  const Duration slept = woken - computed;
  if (draw.delay > Duration::zero()) {
    step.paced = target - step.computed;
    step.delayed = slept_ + slept - step.paced;
  } else {
    step.paced += slept;
  }
  return step;
}

double Pacer::real_compute_share() const {
  return total_target_ == Duration::zero() ? 0 : seconds(total_computed_) / seconds(total_target_);
}

std::optional<std::string> pace_warning(double share, Duration pace) {
  if (share <= Pacer::kMaxShare) return std::nullopt;
  return text("real compute is ", std::lround(100 * share), " % of the pace of ", to_text(pace), " (above ",
              std::lround(100 * Pacer::kMaxShare), " %): speeds show this machine's scheduler, too; a pace of ",
              to_text(pace * static_cast<std::int64_t>(std::ceil(share / Pacer::kMaxShare))), " would do");
}

}  // namespace stretto
