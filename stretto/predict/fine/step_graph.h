#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/predict/model/training_job.h"

namespace stretto {

/// The kind of an operation of a step, on one layer.
enum class OperationKind : std::uint8_t {
  download,  ///< its parameters travel from the server
  forward,
  backward,
  upload,  ///< its gradients travel to the server, or are summed by an allreduce
  update,  ///< the gradients are applied
};

/// "download", "forward", …
const char* name_of(OperationKind kind);

/// One operation of a step, and what must wait for it.
struct StepOperation {
  OperationKind kind;
  int layer;                       ///< the last one in the backward pass, where an upload carries several
  int gpu = 0;                     ///< of the host: who computes it; 0 for what a host does once
  int shard = 0;                   ///< of the layer, of a transfer or update: each server has one
  double link_seconds = 0;         ///< of a transfer: alone on the link, without a cap; of an allreduce with it
  std::uint32_t predecessors = 0;  ///< so many operations must be over before it
  std::uint32_t first_successor = 0;
  std::uint32_t end_successors = 0;
};

/// How the layers of a step become operations.
struct StepRules {
  /// Seconds a byte takes alone on a link. Of an allreduce: with its factor 2(K − 1)/K; 0: there is nobody to share
  /// with.
  double download_seconds_per_byte = 0;
  double upload_seconds_per_byte = 0;
  bool allreduce = false;  ///< nothing is downloaded, and uploads follow each other in the order of the backward pass
  bool overlap = true;     ///< an operation waits for what it needs; false: for all of the phase before
  int servers = 1;         ///< each has a shard of every layer, which travel one after the other
  int gpus = 1;            ///< of a host, which downloads once for all, and uploads what all have brought
  bool buckets = false;  ///< gradients travel in buckets, as DistributedDataParallel fills them: of 1 MiB, then 25 MiB
};

/// One step of one host as operations with dependencies (Li et al., 2.2.1): a layer is downloaded, computed forward
/// when those it reads from have been, then backward when those that read from it have been; then its gradients are
/// uploaded and applied. What takes no time by its nature, as the transfer of a layer without parameters, is left out.
class StepGraph {
 public:
  /// Requires: layers in topological order.
  StepGraph(const ProfiledStep& layers, const StepRules& rules);

  std::span<const StepOperation> operations() const { return operations_; }
  /// The indices of the operations that wait for `operation`, among others.
  std::span<const std::uint32_t> successors(const StepOperation& operation) const {
    return std::span(successors_)
        .subspan(operation.first_successor, operation.end_successors - operation.first_successor);
  }
  /// Of operations that wait for none, ascending.
  std::span<const std::uint32_t> first() const { return first_; }

 private:
  class Builder;

  std::vector<StepOperation> operations_;
  std::vector<std::uint32_t> successors_;
  std::vector<std::uint32_t> first_;
};

}  // namespace stretto
