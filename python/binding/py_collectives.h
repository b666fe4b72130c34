#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "python/binding/py_job.h"
#include "stretto/base/data_type.h"

namespace stretto::python {

/// The ordinary collectives of one rank, over memory of Python's. Each call is one of all ranks, and first compares
/// what they have called. Arrays go in pieces of a few fixed sizes, so that the collectives that are made stay few,
/// whatever lengths the arrays have. One application thread; the lock is not held.
class PyCollectives {
 public:
  /// At the same place among other collectives on every rank.
  explicit PyCollectives(std::shared_ptr<PyJob> job);
  ~PyCollectives();

  /// Waits until all ranks have called this. Throws UsageError on all of them where `what` differs, with both; up to
  /// 255 characters count.
  void agree(const std::string& what);
  /// Puts the sum, minimum or maximum over all ranks in the place of `data`. After agree().
  void allreduce(DataType type, ReduceOp op, std::span<std::byte> data);
  /// Puts the data of rank `root` in the place of `data`. After agree().
  void broadcast(int root, std::span<std::byte> data);
  /// `reason` reaches every rank, also one that waits in a collective. No calls after it.
  void abort(const std::string& reason);
  /// Drops what needs the job. Between two calls.
  void close() { made_.reset(); }

 private:
  struct Made;
  Made& made();

  const std::shared_ptr<PyJob> job_;
  std::shared_ptr<Made> made_;
};

void bind_collectives(nanobind::module_& module);

}  // namespace stretto::python
