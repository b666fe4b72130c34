#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {

struct CycleFix;  // ordering/negotiation/cycle_fix.h

/// How ranks come to reduce the same tensors in the same order, the same on every rank (docs/ordering.md).
struct OrderingOptions {
  /// Who decides what is reduced next.
  enum class Kind {
    none,         ///< nobody orders: fixed buckets, in the order of registration
    coordinator,  ///< the ranks agree anew in every cycle, as in Horovod
    topo,         ///< planned once from the executed graph; the coordinator orders the first step, and where it changes
  };
  /// How a thread waits for messages.
  enum class Waiting {
    spin,   ///< the thread looks without a pause, and burns its core
    sleep,  ///< the thread sleeps until a message comes
  };
  /// The fate of a job that is planned once, where a rank has left the plan.
  enum class OnChange {
    coordinator,  ///< the coordinator orders steps until the graph is stable
    fail,         ///< the job fails
  };

  Kind kind = Kind::coordinator;  ///< named() sets it
  const CycleFix* fix =
      nullptr;  ///< of the coordinator's cycles (ordering/negotiation/cycle_fix.h); null: none. named() sets it
  bool own_cores = false;  ///< SCP: the background thread has a core of its own

  Duration cycle_time = std::chrono::milliseconds(5);  ///< between agreements; a short one costs computing time
  std::uint64_t fusion_bytes = 64 << 20;               ///< of a fused buffer at most; a larger tensor has its own
  int gs_every = 1;                                    ///< gs: cycles between two at which the ranks come together
  int cache_capacity = 1024;  ///< tensors whose requests are a bit instead of a message; 0: none
  int in_flight = 4;          ///< fused buffers of a set under way at a time; each has memory of its own

  /// Whether fused buffers go through memory that the ranks share, where they do; else by messages. Never touches bits.
  bool share_memory = true;
  /// Bytes that each rank's application wants of that memory (OrderedAllreduce::memory()), the same on every rank.
  std::uint64_t memory_bytes = 0;
  /// How the thread that drives waits for the answer of the others. `spin` burns its core, as MPI does.
  Waiting negotiation_wait = Waiting::sleep;
  /// Whether a waiting application thread leaves everything to the helper thread, asleep, so that the two can be told
  /// apart and have cores of their own. Slower. Requires: ProgressBy::thread.
  bool background_only = false;

  /// The cores on which alone the helper thread runs, by their numbers; empty: any. This rank's own, as the next.
  std::vector<int> background_cores;
  /// The helper thread goes before other threads (nice), where the system lets it.
  bool background_first = false;

  /// topo: an application that has waited so long for a tensor whose buffer this rank has not begun leaves the plan.
  Duration plan_patience = std::chrono::milliseconds(200);
  OnChange on_change = OnChange::coordinator;         ///< topo: what becomes of a job whose graph changes
  Duration stall_warning = std::chrono::seconds(10);  ///< after so long a line says which ranks lack a tensor
  Duration stall_abort = std::chrono::seconds(60);    ///< after so long the job fails; 0: never

  /// The members of each further process set, ranks of the job: set i + 1 of TensorDescription::set. Set 0 is all
  /// ranks.
  std::vector<std::vector<int>> sets;

  /// "none", "coordinator", "scp", "topo", the name of a registered fix ("gs", "nbcs": papers/register.h), or such a
  /// fix and "scp" joined by '+'. Throws UsageError for an unknown one and for two that exclude each other, with those
  /// there are.
  static OrderingOptions named(const std::string& name);
  /// The name by which named() makes these options.
  std::string name() const;
  /// Throws UsageError, one line, for the first value that cannot be used in a job of `ranks`.
  void check(int ranks) const;
};

}  // namespace stretto
