#pragma once

#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "stretto/collective/base/agreement.h"
#include "stretto/collective/base/collective_failure.h"
#include "stretto/engine/engine.h"
#include "stretto/ordering/orderer/orderer.h"
#include "stretto/simulate/cluster.h"

namespace stretto {

/// For tests: what a part of a collective needs of the whole, and nothing else.
class WholeCollective final : public EngineClient {
 public:
  explicit WholeCollective(Engine& engine) : failure(engine) { failure.enroll(engine.add(*this, "whole")); }
  bool poll(TimePoint) override { return failure.poll(), false; }
  void control(int, const Envelope& envelope, std::span<const std::byte> head) override {
    failure.control(envelope, head);
  }
  void lost(int, const Error& reason) override { failure.lose(reason, "whole"); }
  void broken(const Error& reason) override { failure.fail(reason, true); }

  CollectiveFailure failure;
};

/// For tests: a job in one thread, on a virtual clock, of which some ranks are a process set. Each rank has a Part,
/// made as Part(engine, failure, set), or as an Agreement.
template <class Part>
struct PartJob {
  /// The number of the part; `whole` stands before it on each engine.
  static constexpr CollectiveId kPart = 1;

  PartJob(int ranks, const std::vector<int>& members, std::uint64_t seed)
      : cluster(ranks, {.jitter = std::chrono::microseconds(50)}, seed) {
    for (int rank = 0; rank < ranks; ++rank) {
      engines.push_back(std::make_unique<Engine>(cluster.transport(rank), cluster.clock()));
      wholes.push_back(std::make_unique<WholeCollective>(*engines.back()));
      const ProcessSet set(1, members, rank);
      if constexpr (std::is_same_v<Part, Agreement>) {
        parts.push_back(std::make_unique<Part>(*engines.back(), wholes.back()->failure, members, set.to_text()));
      } else {
        parts.push_back(std::make_unique<Part>(*engines.back(), wholes.back()->failure, set));
      }
      cluster.on_wake(rank, [this, rank] { step(rank); });
    }
  }
  void step(int rank) {
    while (engines[static_cast<std::size_t>(rank)]->step()) {
    }
  }
  Part& part(int rank) { return *parts[static_cast<std::size_t>(rank)]; }
  CollectiveFailure& failure(int rank) { return wholes[static_cast<std::size_t>(rank)]->failure; }
  void run() {
    for (int rank = 0; rank < cluster.size(); ++rank) step(rank);
    while (cluster.run_next()) {
    }
  }

  SimulatedCluster cluster;
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<std::unique_ptr<WholeCollective>> wholes;
  std::vector<std::unique_ptr<Part>> parts;
};

}  // namespace stretto
