#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/shared_counter.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// This process as one rank of an MPI job: MPI_COMM_WORLD, from MPI_Init_thread to MPI_Finalize.
///
/// MPI lives in a module, libstretto_mpi.so (mpi_module.cc), that is loaded when first asked for: beside the program,
/// in ../lib from there, or on the loader's path. Where MPI was not found at build time, there is no module.
/// A lost peer ends the job, as MPI does.
class MpiJob {
 public:
  /// Whether there is a module that can be loaded (which this does).
  static bool available();

  /// Joins the job; collective. At most once a process. Errc::unavailable says where the module was looked for, or what
  /// this MPI cannot do.
  static Result<std::unique_ptr<MpiJob>> start();

  /// Leaves the job; collective, so that a rank that fails must abort() instead. Requires: no body is on its way into
  /// a sink.
  virtual ~MpiJob() = default;

  /// Sends wait in MPI; a small body travels with its envelope, a large one follows. MPI has nothing to sleep on:
  /// poll_by() asks to be polled 20 µs after something moved and ever more rarely, down to once a millisecond. The
  /// doorbell rings for this process only. May be driven by any thread, one at a time.
  virtual Transport& transport() = 0;

  /// Number `index`, 0 … kNumCounters−1, of all ranks; lies on the last rank. Thread-safe. Waits for that rank to look
  /// after MPI where the ranks share no memory.
  virtual SharedCounter& counter(int index) = 0;
  static constexpr int kNumCounters = 17;

  /// The texts of all ranks on rank 0, empty ones elsewhere. Collective; the last thing before the job is left.
  virtual std::vector<std::string> gather(const std::string& text) = 0;

  /// Ends the job on all ranks, with this exit status.
  [[noreturn]] virtual void abort(int status) = 0;
};

namespace internal {
/// The function that the module exports under this name, with C linkage: joins the job, or says in `error` why it
/// cannot.
using StartMpiJob = MpiJob*(Error* error);
inline constexpr const char* kStartMpiJob = "stretto_start_mpi_job";
}  // namespace internal

}  // namespace stretto
