#include "stretto/simulate/virtual_ranks.h"

#include <algorithm>
#include <list>
#include <new>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/machine/process_limits.h"

namespace stretto {

RankThread::RankThread(std::function<void()> body) : body_(std::move(body)) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack + kGuard);  // glibc takes the guard out of it
  pthread_attr_setguardsize(&attributes, kGuard);
  const auto run = [](void* thread) -> void* {
    static_cast<RankThread*>(thread)->body_();
    return nullptr;
  };
  const int error = pthread_create(&thread_, &attributes, run, this);
  pthread_attr_destroy(&attributes);
  if (error != 0) throw Failure({Errc::unavailable, why_no_process(error)});
}

RankThread::~RankThread() {
  pthread_join(thread_, nullptr);
}

VirtualRank::VirtualRank(VirtualRanks& ranks, int rank) : ranks_(ranks), rank_(rank) {
  cluster().on_wake(rank, [this] { woken(); });
}

SimulatedCluster& VirtualRank::cluster() {
  return ranks_.cluster_;
}

const Clock& VirtualRank::clock() const {
  return ranks_.cluster_.clock();
}

void VirtualRank::notify() {
  cluster().wake_by(rank_, clock().now());
}

void VirtualRank::drive_engine(Engine* engine, ProgressBy progress_by) {
  engine_ = engine;
  progress_by_ = progress_by;
}

void VirtualRank::drive_beside(Engine& engine) {
  beside_.push_back(&engine);
  notify();
}

void VirtualRank::stop_driving(Engine& engine) {
  std::erase(beside_, &engine);
}

TimePoint VirtualRank::step_by() const {
  TimePoint by = engine_ != nullptr ? engine_->step_by() : TimePoint::never();
  for (const Engine* engine : beside_) by = std::min(by, engine->step_by());
  return by;
}

std::uint32_t VirtualRank::rings() {
  std::uint32_t rings = engine_ != nullptr ? engine_->doorbell().rings() : 0;
  for (Engine* engine : beside_) rings += engine->doorbell().rings();
  return rings;
}

void VirtualRank::compute(Duration duration, FunctionRef<void()> work) {
  // What the application has done since the last step, a helper thread would see now.
  const bool rung = engine_ != nullptr && rings() != rings_;
  if (rung && progress_by_ == ProgressBy::thread) step();
  cluster().wake_by(rank_, step_by());

  const TimePoint until = clock().now() + duration;
  const bool beside = ranks_.compute_threads_ > 1;
  if (!beside) work();
  computing_ = true;
  ++ranks_.computing_;
  cluster().at(until, rank_, [this, beside, number = ++computations_] {
    if (!computing_ || number != computations_) return;  // it has been interrupted
    if (beside) computed_.take();
    resume();
  });
  std::exception_ptr thrown;
  if (beside) {
    ranks_.turn_.give();
    ranks_.cores_.acquire();
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
    ranks_.cores_.release();
    computed_.give();
    turn_.take();
  } else {
    rest();
  }
  computing_ = false;
  --ranks_.computing_;
  ranks_.last_progress_ = clock().now();
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  if (thrown) std::rethrow_exception(thrown);
}

void VirtualRank::wait_until(FunctionRef<bool()> done) {
  while (!done()) (void)wait_for(done, TimePoint::never());
}

void VirtualRank::interrupt(std::exception_ptr why) {
  if (over_ || (!waiting_ && !computing_)) return;
  thrown_ = std::move(why);
  if (computing_ && ranks_.compute_threads_ > 1) computed_.take();
  resume();
}

bool VirtualRank::drive(FunctionRef<bool()> done, TimePoint deadline, Looking, std::atomic<std::uint32_t>*) {
  STRETTO_CHECK(engine_ != nullptr, "rank ", rank_, " waits without an engine");
  return wait_for(done, deadline);
}

bool VirtualRank::drive_looking(FunctionRef<bool()> done, TimePoint deadline, Looking, std::atomic<std::uint32_t>*,
                                Look& look) {
  STRETTO_CHECK(engine_ != nullptr, "rank ", rank_, " waits without an engine");
  return wait_for(done, deadline, &look);
}

bool VirtualRank::wait_for(FunctionRef<bool()> done, TimePoint deadline, Look* look) {
  const Waiting waiting{done, deadline, look};
  step();
  if (is_over(waiting)) return true;
  if (clock().now() >= deadline) return false;
  if (ranks_.stuck_) throw Failure(*ranks_.stuck_);
  waiting_.emplace(waiting);
  cluster().wake_by(rank_, std::min(waiting.until(), step_by()));
  rest();
  waiting_.reset();
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  if (!done_ && ranks_.stuck_) throw Failure(*ranks_.stuck_);
  if (done_) ranks_.last_progress_ = clock().now();
  return done_;
}

/// Looks where that is due: in the loop in the place of the application, whose thread need not wake up for it.
bool VirtualRank::is_over(const Waiting& waiting) {
  if (waiting.done()) return true;
  const TimePoint now = clock().now();
  if (waiting.look == nullptr || now < waiting.look->due()) return false;
  waiting.look->at(now);
  if (now >= waiting.deadline) return false;
  step();
  return waiting.done();
}

void VirtualRank::main(const std::function<void(VirtualRank&)>& application) {
  turn_.take();
  try {
    application(*this);
  } catch (...) {
    ranks_.thrown_[static_cast<std::size_t>(rank_)] = std::current_exception();
  }
  engine_ = nullptr;
  beside_.clear();
  over_ = true;
  --ranks_.running_;
  ranks_.last_progress_ = clock().now();
  ranks_.turn_.give();
}

void VirtualRank::rest() {
  ranks_.turn_.give();
  turn_.take();
}

void VirtualRank::resume() {
  turn_.give();
  ranks_.turn_.take();
}

void VirtualRank::step() {
  if (engine_ == nullptr) return;
  rings_ = rings();
  for (bool did = true; did;) {
    did = engine_->step();
    for (Engine* engine : beside_) did = engine->step() || did;
  }
}

void VirtualRank::woken() {
  if (over_ || (engine_ == nullptr && !waiting_)) return;
  if (!waiting_ && progress_by_ == ProgressBy::application) return;
  step();
  if (!waiting_) return cluster().wake_by(rank_, step_by());
  try {
    done_ = is_over(*waiting_);
  } catch (...) {
    thrown_ = std::current_exception();
  }
  if (done_ || thrown_ || clock().now() >= waiting_->deadline) return resume();
  cluster().wake_by(rank_, std::min(waiting_->until(), step_by()));
}

VirtualRanks::VirtualRanks(SimulatedCluster& cluster, int compute_threads)
    : cluster_(cluster), compute_threads_(compute_threads), cores_(compute_threads) {
  STRETTO_CHECK(compute_threads >= 1, compute_threads, " threads");
  for (int rank = 0; rank < cluster.size(); ++rank) {
    all_.push_back(std::unique_ptr<VirtualRank>(new VirtualRank(*this, rank)));
  }
  thrown_.resize(all_.size());
}

VirtualRanks::~VirtualRanks() {
  for (const auto& rank : all_) cluster_.on_wake(rank->rank(), nullptr);
}

void VirtualRanks::run(const std::function<void(VirtualRank&)>& application) {
  std::list<RankThread> threads;
  std::optional<Error> no_thread;
  try {
    for (auto& rank : all_) threads.emplace_back([&application, &rank] { rank->main(application); });
  } catch (const Failure& failure) {
    no_thread = Error{failure.error().code,
                      text("no thread for rank ", threads.size(), " of ", all_.size(), ": ", failure.what())};
  } catch (const std::bad_alloc&) {
    no_thread = Error{Errc::unavailable, text("too little memory for rank ", threads.size(), " of ", all_.size())};
  }
  running_ = static_cast<int>(threads.size());
  if (no_thread) stuck_ = no_thread;
  for (std::size_t rank = 0; rank < threads.size(); ++rank) {
    cluster_.at(TimePoint{}, static_cast<int>(rank), [this, rank] { all_[rank]->resume(); });
  }
  // What an event throws has no rank to go to, and all of them wait: the process ends, rather than wait for their
  // threads.
  [this]() noexcept { loop(); }();
  threads.clear();  // each has ended
  if (no_thread) throw Failure(*no_thread);
  for (const auto& thrown : thrown_) {
    if (thrown) std::rethrow_exception(thrown);
  }
}

void VirtualRanks::loop() {
  while (running_ > 0) {
    if (!stuck_ && computing_ == 0 && !cluster_.busy() && cluster_.now() - last_progress_ > kStuckAfter) {
      give_up(text("no rank goes on: each has waited since ", seconds(last_progress_.since_start), " s"));
    }
    if (cluster_.run_next()) continue;
    STRETTO_CHECK(waiting(), "a rank computes, and nothing says when it ends");  // not one that has crashed meanwhile
    give_up("a rank waits, and nothing happens any more");
  }
}

bool VirtualRanks::waiting() const {
  return std::ranges::any_of(all_, [](const auto& rank) { return rank->waiting_.has_value(); });
}

void VirtualRanks::give_up(const std::string& why) {
  stuck_ = Error{Errc::timeout, why};
  for (auto& rank : all_) {
    if (rank->waiting_) rank->resume();
  }
}

}  // namespace stretto
