#include "stretto/papers/ordering/scale/core_pool.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {

CorePools::CorePools(Duration slice, WakeUp wake_up) : slice_(slice), wake_up_(std::move(wake_up)) {
  STRETTO_CHECK(slice > Duration(0), "a slice of ", slice.count(), " ns");
}

CorePools::Pool CorePools::add_pool(int cores) {
  STRETTO_CHECK(cores >= 1, "a pool of ", cores, " cores");
  pools_.push_back({cores, {}, {}});
  return pools_.size() - 1;
}

CorePools::Thread CorePools::add_thread(Pool pool, Program program) {
  STRETTO_CHECK(pool < pools_.size(), "no pool ", pool);
  threads_.push_back({.pool = pool, .program = std::move(program)});
  const Thread thread = threads_.size() - 1;
  plan(now_, What::run, thread);
  return thread;
}

CorePools::Accelerator CorePools::add_accelerator() {
  accelerators_.push_back(now_);
  return accelerators_.size() - 1;
}

PoolEvent CorePools::new_event() {
  happened_.push_back(false);
  waiters_.emplace_back();
  return happened_.size() - 1;
}

void CorePools::signal_at(PoolEvent event, TimePoint time) {
  STRETTO_CHECK(time >= now_, "an event in the past");
  plan(time, What::signal, event);
}

void CorePools::submit(Accelerator accelerator, Duration work, PoolEvent done) {
  TimePoint& free = accelerators_[accelerator];
  free = std::max(free, now_) + work;
  signal_at(done, free);
}

Duration CorePools::used(Thread thread) const {
  const PooledThread& it = threads_[thread];
  return it.used + (it.state == State::running ? now_ - it.accounted : Duration(0));
}

void CorePools::run(const std::function<bool()>& stop) {
  while (!happenings_.empty()) {
    const Happening next = happenings_.top();
    happenings_.pop();
    now_ = next.time;
    happen(next);
    if (stop()) return;
  }
}

std::uint64_t CorePools::plan(TimePoint time, What what, std::size_t whom) {
  happenings_.push({time, ++planned_, what, whom});
  return planned_;
}

void CorePools::happen(const Happening& happening) {
  switch (happening.what) {
    case What::due:
      // A thread that has left its core meanwhile, or has been told of its event, has another due.
      if (threads_[happening.whom].due == happening.number) go_on(happening.whom);
      return;
    case What::wake: wake(happening.whom); return;
    case What::run: woken(happening.whom); return;
    case What::signal:
      happened_[happening.whom] = true;
      for (const Thread thread : std::exchange(waiters_[happening.whom], {})) {
        if (threads_[thread].state == State::asleep) wake(thread);
        if (threads_[thread].state == State::running) go_on(thread);
      }
      return;
  }
}

void CorePools::wake(Thread thread) {
  const CoreQueue& pool = pools_[threads_[thread].pool];
  const bool busy = std::cmp_greater_equal(pool.running.size(), pool.cores);
  const Duration delay = wake_up_ ? wake_up_(thread, busy) : Duration(0);
  plan(now_ + delay, What::run, thread);
}

void CorePools::woken(Thread thread) {
  PooledThread& it = threads_[thread];
  CoreQueue& pool = pools_[it.pool];
  const bool is_new = it.state == State::queued;  // added, and not yet in the queue
  if (!is_new && std::cmp_greater_equal(pool.running.size(), pool.cores)) {
    const Thread longest =
        *std::ranges::min_element(pool.running, {}, [this](Thread other) { return threads_[other].since; });
    leave_core(longest);
    enqueue(longest);
    give_core(thread);
    return;
  }
  if (is_new) {
    enqueue(thread);
    dispatch(it.pool);
  } else {
    give_core(thread);
  }
}

void CorePools::enqueue(Thread thread) {
  threads_[thread].state = State::queued;
  pools_[threads_[thread].pool].waiting.push_back(thread);
}

void CorePools::dispatch(Pool pool) {
  CoreQueue& queue = pools_[pool];
  while (!queue.waiting.empty() && std::cmp_less(queue.running.size(), queue.cores)) {
    const Thread next = queue.waiting.front();
    queue.waiting.pop_front();
    give_core(next);
  }
}

void CorePools::give_core(Thread thread) {
  PooledThread& it = threads_[thread];
  it.state = State::running;
  it.since = it.accounted = now_;
  it.slice_end = now_ + slice_;
  pools_[it.pool].running.push_back(thread);
  go_on(thread);
}

void CorePools::leave_core(Thread thread) {
  PooledThread& it = threads_[thread];
  account(it);
  it.due = 0;
  std::erase(pools_[it.pool].running, thread);
}

void CorePools::account(PooledThread& thread) {
  const Duration passed = now_ - thread.accounted;
  thread.accounted = now_;
  thread.used += passed;
  if (thread.operation.kind == CoreOperation::Kind::compute) thread.operation.time -= passed;
}

bool CorePools::is_over(const PooledThread& thread) const {
  switch (thread.operation.kind) {
    case CoreOperation::Kind::compute: return thread.operation.time <= Duration(0);
    case CoreOperation::Kind::spin:
    case CoreOperation::Kind::wait: return happened_[thread.operation.event];
    case CoreOperation::Kind::sleep:
    case CoreOperation::Kind::end: break;
  }
  return true;
}

void CorePools::go_on(Thread thread) {
  account(threads_[thread]);
  while (!threads_[thread].has_operation || is_over(threads_[thread])) {
    // Threads may be added meanwhile, which moves them all.
    const CoreOperation next = threads_[thread].program();
    PooledThread& it = threads_[thread];
    it.operation = next;
    it.has_operation = true;
    const bool waits = next.kind == CoreOperation::Kind::wait || next.kind == CoreOperation::Kind::spin;
    if (waits && !happened_[next.event]) waiters_[next.event].push_back(thread);
    const bool sleeps = next.kind == CoreOperation::Kind::sleep || next.kind == CoreOperation::Kind::end ||
                        (next.kind == CoreOperation::Kind::wait && !happened_[next.event]);
    if (!sleeps) continue;
    leave_core(thread);
    it.state = next.kind == CoreOperation::Kind::end ? State::ended : State::asleep;
    if (next.kind == CoreOperation::Kind::sleep) plan(now_ + next.time, What::wake, thread);
    dispatch(it.pool);
    return;
  }
  PooledThread& it = threads_[thread];
  if (now_ >= it.slice_end) {
    if (!pools_[it.pool].waiting.empty()) {
      leave_core(thread);
      enqueue(thread);
      dispatch(it.pool);
      return;
    }
    it.slice_end = now_ + slice_;
  }
  plan_due(thread);
}

void CorePools::plan_due(Thread thread) {
  PooledThread& it = threads_[thread];
  const bool computes = it.operation.kind == CoreOperation::Kind::compute;
  const TimePoint over = computes ? std::min(it.slice_end, now_ + it.operation.time) : it.slice_end;
  it.due = plan(over, What::due, thread);
}

}  // namespace stretto
