#pragma once

#include <memory>
#include <string>

#include "stretto/base/error.h"
#include "stretto/transport/hosts/carrier.h"
#include "stretto/transport/hosts/piece_way.h"
#include "stretto/transport/hosts/tcp.h"

namespace stretto {

/// The MPI of the process manager that has started this process, by the environment, as "Open MPI" or "MPICH"; empty:
/// none has.
std::string mpi_of_manager();

/// The version of that MPI, as "4.1.4 (Open MPI)". A module for each MPI, libstretto_openmpi.so and libstretto_mpich.so
/// (mpi_module.cc), is linked with it, and is loaded now: beside the program, beside the library, in ../lib from there,
/// or on the loader's path. Errc::unavailable: there is none, or another MPI comes with it.
Result<std::string> mpi_version();

/// How a rank takes part in messages by MPI.
struct MpiOptions {
  int rank = 0;
  int ranks = 1;            ///< MPI_COMM_WORLD has these, with the same numbers
  Duration missed_after{};  ///< MissedPeers::limit; zero: nobody is missed
};

/// Messages by MPI, in pieces (PieceCarrier). MPI begins with the first of them in a process, on all ranks at once, and
/// ends with the process, if all ranks have left. MPI has nothing to sleep on: between ranks that have something to say
/// to each other poll_by() asks to be polled 20 µs after something moved and ever more rarely, down to once a
/// millisecond, and each 20 ms where nothing has moved for a while: who goes on then says so by TCP.
/// Carrier::has_ended() once all ranks have left.
///
/// `control` outlives it. Throws Failure where MPI cannot begin, or has other ranks.
std::unique_ptr<Carrier> start_mpi(TcpCarrier& control, const MpiOptions& options);

namespace internal {
/// The functions that a module exports under these names, with C linkage. The first is MPI_Get_library_version(), which
/// may be called before MPI begins. The second begins MPI as it is to be, or says in `error` why it cannot.
using MpiLibraryVersion = const char*();
inline constexpr const char* kMpiLibraryVersion = "stretto_mpi_library_version";
using StartMpiWay = PieceWay*(int rank, int ranks, std::string* error);
inline constexpr const char* kStartMpiWay = "stretto_start_mpi_way";
}  // namespace internal

}  // namespace stretto
