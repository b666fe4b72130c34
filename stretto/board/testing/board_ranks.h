#pragma once

#include <memory>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/board/partial_board.h"
#include "stretto/board/partial_seat.h"
#include "stretto/board/testing/quorum_rule.h"
#include "stretto/board/testing/test_support.h"

namespace stretto {

/// For tests: all ranks of a board, in one thread.
struct Ranks {
  struct Rank {
    Rank(Ranks& all, int rank, int ranks, int quorum)
        : memory(all.bytes.bytes(), all.shape, ranks),
          seat(memory, rank),
          rule(memory, quorum),
          board(
              memory, rank, rule, [&all](int r) { ++all.rings[static_cast<std::size_t>(r)]; }, all.interleaved) {}
    PartialMemory memory;
    PartialSeat seat;
    QuorumRule rule;
    PartialBoard board;
  };

  Ranks(const PartialShape& board_shape, int ranks, int quorum, bool steps = false)
      : shape(board_shape),
        interleaved(steps),
        bytes(PartialMemory::bytes_needed(shape, ranks)),
        rings(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) all.push_back(std::make_unique<Rank>(*this, rank, ranks, quorum));
  }
  Rank& operator[](int rank) { return *all[static_cast<std::size_t>(rank)]; }
  PartialMemory& memory() { return all[0]->memory; }

  int fill(int rank, std::int64_t value, const ContributionFacts& facts = {.batches = 1, .oldest_base = 0}) {
    const int set = (*this)[rank].seat.acquire();
    for (std::size_t bucket = 0; bucket < shape.buckets.size(); ++bucket) {
      auto* numbers = reinterpret_cast<std::int64_t*>(memory().data(rank, set, bucket).data());
      std::fill_n(numbers, shape.buckets[bucket].count, value);
    }
    memory().set(rank, set).facts = facts;
    memory().set(rank, set).ready = static_cast<int>(shape.buckets.size());
    return set;
  }
  int deposit(int rank, std::int64_t value, const ContributionFacts& facts = {.batches = 1, .oldest_base = 0}) {
    const int set = fill(rank, value, facts);
    PartialSeat::Deposit deposit((*this)[rank].seat, set);
    while (!deposit.step()) {
    }
    return set;
  }
  void arrive(int rank) { (*this)[rank].seat.arrive(memory().words().stage >> 2, 500 + rank); }
  void run(int rank, bool waiting = true) {
    while ((*this)[rank].board.step(waiting)) {
    }
  }
  SeatWord seat(int rank) { return SeatWord(memory().seat(rank)); }
  std::int64_t result(Round round, std::size_t bucket = 0) {
    const auto* numbers = reinterpret_cast<const std::int64_t*>(memory().result(round, bucket).data());
    for (std::uint64_t i = 1; i < shape.buckets[bucket].count; ++i)
      STRETTO_CHECK(numbers[i] == numbers[0], "element ", i, " of bucket ", bucket, " is ", numbers[i], ", the first ",
                    numbers[0]);
    return numbers[0];
  }

  const PartialShape shape;
  const bool interleaved;
  ZeroMemory bytes;
  std::vector<int> rings;
  std::vector<std::unique_ptr<Rank>> all;
};

inline PartialShape small(std::uint64_t count = 20) {
  return {.buckets = {{DataType::int64, count}}, .max_lag = 2, .piece_bytes = 64};
}

}  // namespace stretto
