#pragma once

#include <set>
#include <string>

#include "stretto/base/error.h"
#include "stretto/observe/line_file.h"
#include "stretto/predict/fine/step_simulation.h"
#include "stretto/predict/model/training_job.h"

namespace stretto {

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
