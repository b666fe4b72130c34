#include "stretto/predict/fine/step_graph.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace stretto {

namespace {

using Index = std::uint32_t;
using Indices = std::vector<Index>;

// As torch.nn.parallel.DistributedDataParallel has them by default.
constexpr double kFirstBucketBytes = 1024.0 * 1024;
constexpr double kBucketBytes = 25 * kFirstBucketBytes;

constexpr std::array kNames{"download", "forward", "backward", "upload", "update"};

}  // namespace

const char* name_of(OperationKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

/// Adds operations phase by phase; edges come from the caller's knowledge of what each phase needs.
class StepGraph::Builder {
 public:
  Builder(const ProfiledStep& layers, const StepRules& rules)
      : layers_(layers), rules_(rules), readers_(layers.size()), downloads_(layers.size()), gradients_(layers.size()) {
    for (std::size_t layer = 0; layer < layers.size(); ++layer)
      for (const int source : layers[layer].after) readers_[static_cast<std::size_t>(source)].push_back(layer);
  }

  void build(StepGraph& graph) && {
    if (!rules_.allreduce) add_downloads();
    for (int gpu = 0; gpu < rules_.gpus; ++gpu) compute(gpu);
    add_uploads();
    finish(graph);
  }

 private:
  Index add(OperationKind kind, std::size_t layer, const Indices& after, int gpu = 0) {
    const auto index = static_cast<Index>(operations_.size());
    operations_.push_back({.kind = kind, .layer = static_cast<int>(layer), .gpu = gpu});
    for (const Index before : after) edges_.emplace_back(before, index);
    operations_.back().predecessors = static_cast<std::uint32_t>(after.size());
    return index;
  }

  /// One for each server.
  Indices add_transfer(OperationKind kind, std::size_t layer, const Indices& after, double link_seconds) {
    Indices shards;
    for (int shard = 0; shard < rules_.servers; ++shard) {
      shards.push_back(add(kind, layer, after));
      operations_.back().shard = shard;
      operations_.back().link_seconds = link_seconds / rules_.servers;
    }
    return shards;
  }

  void add_downloads() {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const double seconds = layers_[layer].bytes * rules_.download_seconds_per_byte;
      if (seconds > 0) downloads_[layer] = add_transfer(OperationKind::download, layer, {}, seconds);
    }
    // A link carries a worker's transfers in order, so whoever waits for the last has waited for all.
    if (!rules_.overlap) {
      Indices last;
      for (Indices& download : downloads_)
        if (!download.empty()) last = std::exchange(download, {});
      for (std::size_t layer = 0; layer < layers_.size(); ++layer)
        if (layers_[layer].after.empty()) downloads_[layer] = last;
    }
  }

  void compute(int gpu) {
    std::vector<Index> forward(layers_.size());
    Indices ends;  // of the layers that nobody reads from: the loss
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      Indices after = downloads_[layer];
      for (const int source : layers_[layer].after) after.push_back(forward[static_cast<std::size_t>(source)]);
      forward[layer] = add(OperationKind::forward, layer, after, gpu);
      if (readers_[layer].empty()) ends.push_back(forward[layer]);
    }
    std::vector<Index> backward(layers_.size());
    for (std::size_t layer = layers_.size(); layer-- > 0;) {
      Indices after;
      for (const std::size_t reader : readers_[layer]) after.push_back(backward[reader]);
      backward[layer] = add(OperationKind::backward, layer, after.empty() ? ends : after, gpu);
      gradients_[layer].push_back(backward[layer]);
    }
    if (!rules_.overlap)
      for (std::size_t layer = 0; layer < layers_.size(); ++layer)
        if (layers_[layer].after.empty()) last_backward_.push_back(backward[layer]);
  }

  /// The layers whose gradients travel together, in the order of the backward pass.
  std::vector<std::vector<std::size_t>> uploads() const {
    std::vector<std::vector<std::size_t>> uploads;
    double room = 0;
    for (std::size_t layer = layers_.size(); layer-- > 0;) {
      const bool travels = layers_[layer].bytes * rules_.upload_seconds_per_byte > 0;
      if (!travels && layers_[layer].update <= 0) continue;
      if (!rules_.buckets || uploads.empty() || room <= 0) {
        room = uploads.empty() ? kFirstBucketBytes : kBucketBytes;
        uploads.emplace_back();
      }
      uploads.back().push_back(layer);
      room -= layers_[layer].bytes;
    }
    return uploads;
  }

  void add_uploads() {
    struct Arrival {
      std::vector<std::size_t> layers;
      Indices ready;   // where nothing had to travel: the backward operations
      Indices shards;  // the uploads
    };
    std::vector<Arrival> arrivals;
    Indices before;  // the upload in front
    for (const std::vector<std::size_t>& together : uploads()) {
      double seconds = 0;
      Indices ready = last_backward_;
      for (const std::size_t layer : together) {
        seconds += layers_[layer].bytes * rules_.upload_seconds_per_byte;
        if (rules_.overlap) ready.insert(ready.end(), gradients_[layer].begin(), gradients_[layer].end());
      }
      arrivals.push_back({together, ready, {}});
      if (seconds <= 0) continue;
      if (rules_.allreduce) ready.insert(ready.end(), before.begin(), before.end());
      before = arrivals.back().shards = add_transfer(OperationKind::upload, together.back(), ready, seconds);
    }
    for (const Arrival& arrival : arrivals) {
      for (const std::size_t layer : arrival.layers) {
        if (layers_[layer].update <= 0) continue;
        for (int shard = 0; shard < rules_.servers; ++shard) {
          Indices after =
              arrival.shards.empty() ? arrival.ready : Indices{arrival.shards[static_cast<std::size_t>(shard)]};
          if (!rules_.overlap && !before.empty()) after = before;
          add(OperationKind::update, layer, after);
          operations_.back().shard = shard;
        }
      }
    }
  }

  void finish(StepGraph& graph) {
    std::ranges::sort(edges_);
    for (const auto& [from, to] : edges_) graph.successors_.push_back(to);
    for (std::size_t edge = 0, index = 0; index < operations_.size(); ++index) {
      operations_[index].first_successor = static_cast<Index>(edge);
      while (edge < edges_.size() && edges_[edge].first == index) ++edge;
      operations_[index].end_successors = static_cast<Index>(edge);
      if (operations_[index].predecessors == 0) graph.first_.push_back(static_cast<Index>(index));
    }
    graph.operations_ = std::move(operations_);
  }

  const ProfiledStep& layers_;
  const StepRules& rules_;
  std::vector<std::vector<std::size_t>> readers_;  // by layer: who reads from it
  std::vector<Indices> downloads_;                 // by layer: what its forward operation waits for
  std::vector<Indices> gradients_;                 // by layer: its backward operation on each GPU
  Indices last_backward_;                          // without overlap: with these the backward phase is over
  std::vector<StepOperation> operations_;
  std::vector<std::pair<Index, Index>> edges_;
};

StepGraph::StepGraph(const ProfiledStep& layers, const StepRules& rules) {
  Builder(layers, rules).build(*this);
}

}  // namespace stretto
