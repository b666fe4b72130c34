#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/observe/line_file.h"
#include "stretto/predict/fine/host_plan.h"
#include "stretto/predict/fine/step_simulation.h"
#include "stretto/predict/model/training_job.h"
#include "stretto/schedule/export.h"

namespace stretto {

/// Options of the export of a job's steps.
struct StepExportOptions {
  int steps = 20;          ///< of each host, from the first on
  std::uint64_t seed = 1;  ///< StepSimulationOptions::seed: the same steps are drawn
  bool buckets = false;    ///< StepRules::buckets
  bool ring = false;       ///< an allreduce is the messages of a ring, instead of one node
};

/// The steps of a job as simulate_steps() runs them, for simulators of other people: who computes for how long, and who
/// sends how many bytes to whom. How fast links are, and how transfers share them, is for the other simulator to say.
///
/// Ranks are the hosts, in the order of the job's classes, and behind them the servers. A rank knows only what messages
/// tell it. So a server sends the layers of a step when it has applied its own shards of the step before, whether other
/// servers have or not; and where there is no server, a host goes on when it has applied the sums itself. A rank
/// computes one thing at a time, for so these simulators have it: a server applies the gradients of one host after
/// those of another.
class StepExport {
 public:
  /// `job` must outlive it. Throws UsageError as plan_hosts() does, for hosts with several GPUs, and for more messages
  /// than there are tags.
  StepExport(const TrainingJob& job, const StepExportOptions& options);

  int ranks() const { return hosts() + servers_; }
  /// The nodes of one rank. Each call costs the memory of that rank alone.
  std::vector<ExportNode> rank(int rank) const;

 private:
  using Ids = std::vector<std::uint32_t>;
  class Nodes;

  /// The shape of a step, the same for all steps of a plan, beside its graph.
  struct Shape {
    std::vector<Ids> predecessors;        ///< by operation
    std::vector<std::uint32_t> transfer;  ///< by operation: how many transfers stand before it
    std::uint32_t transfers = 0;
  };

  int hosts() const { return static_cast<int>(plans_.of_host.size()); }
  const HostPlan& plan(int host) const;
  const Shape& shape(int host) const;
  std::string name_of(int step, int host, const StepOperation& operation) const;
  std::uint64_t messages_of_transfer() const;
  std::uint32_t tag_of(int step, int host, std::size_t operation) const;
  ExportNode computation_of(int step, int host, const StepOperation& operation, const DrawnSteps& drawn) const;
  ExportNode transfer_of(int step, int host, std::size_t operation) const;

  std::vector<ExportNode> host(int host) const;
  /// Adds an allreduce. Returns the nodes with which its sum is there.
  Ids summed(Nodes& nodes, int step, int host, std::size_t operation, const Ids& after) const;
  std::vector<ExportNode> server(int server) const;
  /// Adds one step of one host. Returns the nodes with which its gradients are applied.
  Ids serve(Nodes& nodes, int step, int host, int server, const Ids& begin, const DrawnSteps& drawn) const;

  const TrainingJob& job_;
  const StepExportOptions options_;
  const HostPlans plans_;
  const int servers_;
  std::vector<Shape> shapes_;             // by plan
  std::vector<std::uint64_t> first_tag_;  // by host, of a step
  std::uint64_t tags_ = 0;                // of a step
};

/// Writes simulated operations as a Chrome trace, which Perfetto opens: a process a host, in it a track for the
/// downlink, each GPU, the uplink and the server. A full disk costs events; complete() tells.
class StepTrace {
 public:
  /// Of the first `steps` steps of each host. `job` must outlive it.
  StepTrace(const TrainingJob& job, std::string path, int steps);

  void add(const SimulatedOperation& operation);
  /// Ends the file. Errc::io says what could not be written.
  Result<void> complete();

 private:
  void name_tracks(const SimulatedOperation& operation);
  void write(std::string event);

  const TrainingJob& job_;
  const int steps_;
  LineFile file_;
  std::string held_;     // the last event, which gets no comma where none follows
  std::set<int> named_;  // hosts whose tracks have names
};

}  // namespace stretto
