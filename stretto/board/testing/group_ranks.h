#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/board/groups/group_board.h"
#include "stretto/board/groups/group_seat.h"
#include "stretto/board/testing/test_support.h"

namespace stretto {

/// For tests: the groups of each round, written down.
class WrittenGroups final : public GroupRule {
 public:
  using Groups = std::vector<std::vector<int>>;
  WrittenGroups(const std::vector<Groups>& rounds, int rank) : rounds_(rounds), rank_(rank) {}

  Group group(Round round) override {
    const Groups& groups = rounds_.at(round);
    const auto mine =
        std::ranges::find_if(groups, [this](const auto& group) { return std::ranges::count(group, rank_) == 1; });
    STRETTO_CHECK(mine != groups.end(), "rank ", rank_, " is in no group of round ", round);
    return {static_cast<int>(mine - groups.begin()), *mine};
  }

 private:
  const std::vector<Groups>& rounds_;
  const int rank_;
};

/// For tests: all ranks of a group board, in one thread.
struct GroupRanks {
  using Groups = WrittenGroups::Groups;
  struct Options {
    GroupShape shape;
    int ranks = 0;  // 0: as many as round 0 has
    bool interleaved = false;
  };
  struct Rank {
    Rank(GroupRanks& all, int rank)
        : memory(all.bytes.bytes(), all.shape, all.ranks),
          seat(memory, rank),
          rule(all.rounds, rank),
          board(
              memory, rank, rule, [&all](int r) { ++all.rings[static_cast<std::size_t>(r)]; }, all.interleaved) {}
    GroupMemory memory;
    GroupSeat seat;
    WrittenGroups rule;
    GroupBoard board;
  };

  GroupRanks(const Options& options, std::vector<Groups> groups)
      : shape(options.shape),
        rounds(std::move(groups)),
        ranks(options.ranks != 0 ? options.ranks : members_of(rounds.front())),
        interleaved(options.interleaved),
        bytes(GroupMemory::bytes_needed(shape, ranks)),
        rings(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) all.push_back(std::make_unique<Rank>(*this, rank));
  }
  Rank& operator[](int rank) { return *all[static_cast<std::size_t>(rank)]; }
  GroupMemory& memory() { return all[0]->memory; }

  void publish(int rank, std::int64_t value, Round ticket = 0, const ContributionFacts& facts = {.batches = 1}) {
    const int set = (*this)[rank].seat.acquire().value();
    for (std::size_t bucket = 0; bucket < shape.buckets.size(); ++bucket) {
      auto* numbers = reinterpret_cast<std::int64_t*>(memory().model(rank, set, bucket).data());
      std::fill_n(numbers, shape.buckets[bucket].count, value);
    }
    (*this)[rank].seat.publish(set, ticket, facts);
  }
  void publish_bytes(int rank, const Bytes& model) {
    const int set = (*this)[rank].seat.acquire().value();
    std::ranges::copy(model, memory().model(rank, set, 0).begin());
    (*this)[rank].seat.publish(set, 0, {.batches = 1});
  }
  /// The rank arrives at `round` and does what is due.
  void run(int rank, Round round) {
    (*this)[rank].seat.arrive(round);
    while ((*this)[rank].board.step(round)) {
    }
  }
  Round newest(int rank) { return (*this)[rank].board.newest(); }
  int stands(int rank) { return static_cast<int>(NumberedWord(memory().seat(rank).model).index()); }
  std::int64_t sum_in(std::uint64_t result) {
    const auto* numbers = reinterpret_cast<const std::int64_t*>(memory().sum(result, 0).data());
    for (std::uint64_t i = 1; i < shape.buckets[0].count; ++i) {
      STRETTO_CHECK(numbers[i] == numbers[0], "element ", i, " is ", numbers[i], ", the first ", numbers[0]);
    }
    return numbers[0];
  }
  std::uint64_t result_of(int rank) { return NumberedWord(memory().seat(rank).result).index(); }
  std::int64_t sum_at(int rank) { return sum_in(result_of(rank)); }
  RoundHeader header_at(int rank) {
    RoundHeader header(ranks);
    const std::uint64_t result = result_of(rank);
    const auto bytes = memory().header(result).first(memory().result(result).header_bytes);
    STRETTO_CHECK(header.read(bytes, ranks), "the header is malformed");
    return header;
  }
  int pins() {
    int pins = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      for (int set = 0; set < memory().sets(); ++set) pins += memory().set(rank, set).pins;
    }
    return pins;
  }
  std::uint64_t uses() {
    std::uint64_t uses = 0;
    for (std::uint64_t i = 0; i < memory().results(); ++i) uses += memory().result(i).uses;
    return uses;
  }

  static int members_of(const Groups& groups) {
    std::size_t members = 0;
    for (const auto& group : groups) members += group.size();
    return static_cast<int>(members);
  }

  const GroupShape shape;
  const std::vector<Groups> rounds;
  const int ranks;
  const bool interleaved;
  ZeroMemory bytes;
  std::vector<int> rings;
  std::vector<std::unique_ptr<Rank>> all;
};

inline GroupShape small_groups(Round full_every = 100, int quorum = 0) {
  return {
      .buckets = {{DataType::int64, 20}}, .full_every = full_every, .groups = 2, .quorum = quorum, .piece_bytes = 64};
}

}  // namespace stretto
