#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/ordering/negotiation/cycle_fix.h"
#include "stretto/ordering/orderer/graph.h"

namespace stretto {

/// The time that passes at once where nothing else happens: so long that cycles do not add up to it.
inline constexpr Duration kOrderingPatience{1'000'000'000};

/// A fix of the coordinator of every process set; none where `fix` is null.
struct ChangedCoordinator {
  const CycleFix* fix = nullptr;
  int every = 1;  ///< OrderingOptions::gs_every
};

/// A job whose ranks hand over tensors that become ready in an order of each rank's own, drawn from a seed.
struct OrderingJob {
  /// A rank's program for a step: submits each tensor once those that it depends on are reduced.
  struct Program {
    std::vector<std::vector<int>> parents;  ///< by tensor
    bool waits_at_end = false;              ///< for all tensors, before it ends the step
  };
  /// Something that happens to one rank in one step; nothing: rank −1.
  struct Mishap {
    int rank = -1;
    std::uint64_t step = 0;
    int tensor = 0;
    int other = 0;
  };

  std::uint64_t seed = 0;
  std::vector<std::vector<int>> sets;      ///< ranks of each process set, ascending; set 0: all
  std::vector<TensorDescription> tensors;  ///< in the first step
  std::vector<Program> programs;           ///< of which each step executes one
  std::vector<std::uint64_t> steps_of;     ///< by rank, until it drains

  bool topo = false;
  std::uint64_t cache_capacity = 0, fusion_bytes = 64;
  int in_flight = 4;
  ChangedCoordinator changed;
  bool one_thread = false;  ///< serves all sets, blocking in one at a time
  /// A rank submits from several threads, each when what it waits for is reduced; else from one, which waits for one
  /// tensor at a time.
  bool several_threads = false;

  double omits = 0;                 ///< probability that a rank does not submit a tensor for which no rank waits
  bool omits_always = false;        ///< the same tensors in each step
  std::uint64_t changes_every = 0;  ///< steps, after which the other program is executed; 0: never
  std::uint64_t resized_from = 0;   ///< step from which on some tensors have other sizes; 0: none
  Mishap contrary;                  ///< waits for two tensors in the other order: the job may hang
  Mishap unlike;                    ///< describes a tensor in its own way: the job must fail

  int ranks() const { return static_cast<int>(steps_of.size()); }
  bool member(int set, int rank) const;
  /// Nothing differs between steps, so that ranks that follow a plan never leave it.
  bool is_static() const;
  /// And nothing between ranks: all execute the same graph.
  bool is_uniform() const;
  bool submits(int rank, std::uint64_t step, int tensor) const;
  TensorDescription described(int rank, std::uint64_t step, int tensor) const;
  /// The tensors that `tensor` depends on, of the tensors that the rank submits.
  std::vector<int> parents(int rank, std::uint64_t step, int tensor) const;
  bool waits_at_end(std::uint64_t step) const { return program(step).waits_at_end; }
  ExecutedGraph executed(int rank, std::uint64_t step) const;
  /// The value that the rank adds to the sum.
  std::uint64_t value(int rank, std::uint64_t step, int tensor) const;
  /// Over all members that submit it.
  std::uint64_t expected(std::uint64_t step, int tensor) const;
  int number_of(const std::string& name) const;  ///< of the tensor
  std::string to_string() const;

 private:
  const Program& program(std::uint64_t step) const;
  bool leaf(int tensor) const;  // within a step no rank waits for it: or it would wait for those that leave it out
};

/// The job of a seed. `ranks`: 0: drawn, 2 to 5. With a fix the coordinator orders it, else that or topo.
OrderingJob draw_ordering_job(std::uint64_t seed, int ranks, const ChangedCoordinator& changed);

}  // namespace stretto
