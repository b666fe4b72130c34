#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
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

/// Bodies up to this size travel in the packet of their envelope: one message and a copy.
inline constexpr std::uint64_t kMaxInlineBody = 4096;

/// Reads the envelope of a packet: envelope, head and, if it is small, the body. Returns false where a peer has sent
/// something else: fewer or more bytes than the envelope says, or a larger head than may travel.
inline bool read_packet(std::span<const std::byte> packet, Envelope& envelope) {
  if (packet.size() < sizeof envelope) return false;
  std::memcpy(&envelope, packet.data(), sizeof envelope);
  const std::uint64_t body = envelope.body_bytes <= kMaxInlineBody ? envelope.body_bytes : 0;
  return envelope.head_bytes <= kMaxHeadBytes && packet.size() == sizeof envelope + envelope.head_bytes + body;
}

}  // namespace stretto
