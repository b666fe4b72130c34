#include "stretto/train/profile/operation_trace.h"

#include <ATen/SequenceNumber.h>
#include <ATen/Tensor.h>

#include <utility>

#include "stretto/base/error.h"

namespace stretto {
namespace {

// LibTorch calls plain functions back, with nothing that could name the trace. They run in the thread whose operation
// it is, so each thread has its own.
thread_local OperationTrace* current = nullptr;

// Of an operation that is running: what it reads. Its inputs may be gone when it ends.
struct Touched final : at::ObserverContext {
  int name = -1;
};

}  // namespace

OperationTrace::OperationTrace() {
  STRETTO_CHECK(current == nullptr, "one trace at a time in a thread");
  current = this;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&OperationTrace::begin, &OperationTrace::end)
                                           .needsInputs(true)
                                           .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

OperationTrace::~OperationTrace() {
  at::removeCallback(handle_);
  current = nullptr;
}

void OperationTrace::watch(const at::Tensor& tensor, int name) {
  if (tensor.defined() && tensor.has_storage()) watched_.emplace(tensor.const_data_ptr(), name);
}

std::vector<TracedOperation> OperationTrace::take() {
  return std::exchange(ended_, {});
}

std::unique_ptr<at::ObserverContext> OperationTrace::begin(const at::RecordFunction& operation) {
  if (current->watched_.empty()) return nullptr;
  auto touched = std::make_unique<Touched>();
  for (const c10::IValue& input : operation.inputs()) {
    if (!input.isTensor() || !input.toTensor().defined() || !input.toTensor().has_storage()) continue;
    const auto found = current->watched_.find(input.toTensor().const_data_ptr());
    if (found == current->watched_.end()) continue;
    touched->name = found->second;
    break;
  }
  return touched;
}

void OperationTrace::end(const at::RecordFunction& operation, at::ObserverContext* context) {
  const bool backward = operation.scope() == at::RecordScope::BACKWARD_FUNCTION;
  const auto* touched = static_cast<const Touched*>(context);
  current->ended_.push_back(
      {.end = SteadyClock().now(),
       .backward = backward,
       .sequence = backward ? static_cast<std::uint64_t>(operation.seqNr()) : at::sequence_number::peek(),
       .touched = touched == nullptr ? -1 : touched->name});
}

}  // namespace stretto
