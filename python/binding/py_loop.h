#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "python/binding/interpreter.h"
#include "python/binding/py_job.h"
#include "python/binding/py_replica.h"
#include "stretto/base/error.h"
#include "stretto/train/loop/loop_batches.h"
#include "stretto/train/loop/own_loop.h"

namespace stretto::python {

/// Bytes that Python may read and write: a writable buffer, for memoryview() and torch.frombuffer(). What the bytes
/// belong to lives as long as any view of them.
class Memory {
 public:
  Memory(std::span<std::byte> bytes, std::shared_ptr<void> owner) : bytes_(bytes), owner_(std::move(owner)) {}
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
  std::shared_ptr<void> owner_;
};

void bind_memory(nanobind::module_& module);

/// The loop of one optimizer of Python. Every call that may call Python brings the object that does what only Python
/// can (PyReplica::Calls).
class PyLoop {
 public:
  /// `silence`: as LoopHooks.
  PyLoop(ReplicaObject calls, std::shared_ptr<PyJob> job, PyModel model, const DistributedOptions& options,
         Duration silence);
  ~PyLoop() { job_->remove_part(this); }
  PyLoop(const PyLoop&) = delete;
  PyLoop& operator=(const PyLoop&) = delete;

  PyReplica& replica() { return replica_; }
  /// Joins the loops of the other ranks. Lock held; as with_calls().
  void begin(ReplicaObject calls);
  /// OwnLoop::leave(); before begin() that leaves as soon as it has begun.
  void leave();
  /// Throws UsageError before begin(), and after close(), which also the end of the job calls.
  OwnLoop& loop();
  /// Where members change, before begin(): there is no loop yet.
  bool has_begun() const { return closed_ || loop_; }
  bool closed() const { return closed_; }
  /// As the environment wants them, also before begin().
  const DistributedOptions& options() const { return options_; }
  bool averages_gradients();
  const std::shared_ptr<PyJob>& job() const { return job_; }

  /// From now on `round(…)` is called for each round: its number, policy, batches, samples, contributors, ranks that
  /// had arrived, and staleness.
  void tell_rounds();
  /// The batches of the job's pool; every rank, once, after begin(), with the same plan.
  void make_pool(const PlanOptions& plan);
  /// The next batch; nothing: there is none, unless look_again() and drain() say so.
  std::optional<Batch> next_batch();
  /// One more of what `number` stands for, below 8: the next deposit brings it along (RoundListener::take_counts()).
  void count(int number);
  LoopCounts take_counts() { return std::exchange(counts_, {}); }

  /// OwnLoop::report_json(); after close() as it was then.
  std::string report() { return closed_ ? last_report_ : loop().report_json(); }
  /// Drops everything that needs the job. What is not finished is aborted.
  void close();

  /// Runs `work` without the interpreter's lock, with `calls` as Python's part.
  template <class Work>
  auto with_calls(ReplicaObject calls, Work work) {
    const Busy busy(*this);
    const PyReplica::Calls scope(replica_, calls);
    const Unlocked unlocked;
    return work(loop());
  }
  /// Whether a call is under way: of another thread, or of what this call has called.
  bool busy() const { return busy_; }

 private:
  /// Lock held at both ends. Throws UsageError where a call is under way.
  class Busy {
   public:
    explicit Busy(PyLoop& loop) : loop_(loop) {
      if (loop.busy_) {
        throw UsageError(
            "a call of an optimizer within another: expected one thread, and no step() inside of a step()");
      }
      loop.busy_ = true;
    }
    ~Busy() { loop_.busy_ = false; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    PyLoop& loop_;
  };

  LoopHooks hooks(Duration silence);
  void counted(const LoopCounts& sum, int ranks);
  void open();

  const std::shared_ptr<PyJob> job_;
  const DistributedOptions options_;
  const Duration silence_;
  PyReplica replica_;
  const PythonPart& calls_;  // the replica's
  bool busy_ = false;
  LoopCounts counts_{};  // since the last deposit
  std::optional<OwnLoop> loop_;
  std::optional<LoopBatches> batches_;  // ends before loop_
  std::shared_ptr<BatchPool> pool_;
  bool tells_rounds_ = false;
  bool leaves_ = false;
  bool closed_ = false;
  std::string last_report_;
};

void bind_loop(nanobind::module_& module);

}  // namespace stretto::python
