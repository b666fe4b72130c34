#pragma once

#include <cstdint>
#include <string>

namespace stretto {

/// An allreduce, as far as its speed depends on it.
struct AllreduceTask {
  std::uint64_t bytes = 0;
  int ranks = 1;
  int cores = 1;
  bool registered = false;  ///< inputs lie on the board, and the result is read there
};

/// How it is done.
struct AllreduceChoice {
  enum class Way {
    messages,  ///< by a schedule over the transport
    exchange,  ///< on the board: each rank shows its chunks and sums all of them (ExchangeBoard)
    gather,    ///< on the board: each piece is summed once, by a rank that waits (FullBoard)
  };
  Way way = Way::messages;
  std::uint64_t piece_bytes = 0;  ///< exchange: of a chunk; gather: of a piece
  std::string why;                ///< with the times that were compared
  int seats = 0;                  ///< gather: at a board; 0: all ranks, and no schedule between boards
};

const char* name_of(AllreduceChoice::Way way);

/// The costs of the ways on a machine: fitted by `stretto bench tune`, or those of an EPYC with 2 cores. Times in µs,
/// rates in bytes/µs.
struct AllreduceCosts {
  double hand_off = 0.02;      ///< from a store to its sight on another core, where looks are many
  double turn = 1.4;           ///< from one rank to the next on the same core
  double start = 0.08;         ///< of a chunk or piece
  double sum_rate = 55000;     ///< of memory that one core reads to sum or copy
  double move_rate = 40000;    ///< the same, of memory that another core has written since
  double cache = 16 << 20;     ///< bytes that a call may touch without going to memory
  double memory_rate = 39000;  ///< of memory touched beyond the cache, all cores together

  /// The ones in `file`, as `stretto bench tune` writes it: a line "name = number" for each that is not guessed; lines
  /// from '#' on are skipped. Throws UsageError that names the file and what is wrong.
  static AllreduceCosts read(const std::string& file);
  /// The text that read() reads.
  std::string to_text() const;
  /// The costs in the file that the environment variable STRETTO_TUNING names, read anew, or the guesses. Throws as
  /// read().
  static AllreduceCosts from_environment();
};

/// The time one call takes, in µs. Linear in the times and in the inverse of the rates.
double predicted_us(AllreduceChoice::Way way, const AllreduceTask& task, const AllreduceCosts& costs);

/// Bytes shown or summed at a time.
std::uint64_t piece_bytes(AllreduceChoice::Way way, const AllreduceTask& task);

/// The faster way on a board. Depends on nothing but its arguments, which are the same on every rank.
AllreduceChoice choose_allreduce(const AllreduceTask& task, const AllreduceCosts& costs);

}  // namespace stretto
