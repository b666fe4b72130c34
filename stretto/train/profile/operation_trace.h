#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

/// An operation of LibTorch that has ended.
struct TracedOperation {
  TimePoint end;
  bool backward = false;       ///< a node of autograd's graph in a backward pass, not an operation that was called
  std::uint64_t sequence = 0;  ///< of a node its number; else the number that the next node will have
  int touched = -1;            ///< the first of the watched tensors that it has read; −1: none of them
};

/// While it lives, notes each operation of this thread, and each node of a backward pass that this thread runs. One at
/// a time in a thread. Costs some hundred nanoseconds an operation.
class OperationTrace {
 public:
  OperationTrace();
  ~OperationTrace();
  OperationTrace(const OperationTrace&) = delete;
  OperationTrace& operator=(const OperationTrace&) = delete;

  /// From now on operations that read the memory of this tensor say so, as `name`.
  void watch(const at::Tensor& tensor, int name);
  /// The operations that have ended since the last call, in order.
  std::vector<TracedOperation> take();

 private:
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& operation);
  static void end(const at::RecordFunction& operation, at::ObserverContext* context);

  at::CallbackHandle handle_;
  std::unordered_map<const void*, int> watched_;  // name by address
  std::vector<TracedOperation> ended_;
};

}  // namespace stretto
