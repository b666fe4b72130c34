#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stretto/schedule/schedule.h"

namespace stretto {

/// One thing that a rank does, in the words that simulators of other people have in common: each begins when all of
/// `after` are over.
struct ExportNode {
  enum class Kind : std::uint8_t {
    send,
    recv,
    compute,
    allreduce,  ///< of all ranks; the other simulator chooses its messages
  };
  std::uint32_t id = 0;  ///< of this rank's nodes
  Kind kind = Kind::compute;
  std::string name;         ///< for people
  int peer = -1;            ///< send, recv: the other rank
  std::uint64_t bytes = 0;  ///< send, recv, allreduce; more than 0, for no simulator knows a message without bytes
  std::uint32_t tag = 0;    ///< send, recv: no other message of the job has it
  std::uint64_t nanoseconds = 0;  ///< compute
  std::vector<std::uint32_t> after;
};

/// Tags fit into 31 bits, which is what readers of both formats have for them.
inline constexpr std::uint64_t kMostTags = std::uint64_t{1} << 31;

/// The program of each rank in one run of the schedules, one nanosecond of computation for every 8 bytes that a reduce
/// or copy writes. Other simulators know only AND: so the schedules are run once (Execution). Operations that do not
/// finish in this run are left out, except that the recv of a message that was sent is always there. An operation that
/// waits for some of its predecessors waits for those that finished first in this run. The nodes have the numbers of
/// their operations. Throws UsageError for schedules that do not pass validate(), an initiator outside the job, and
/// ranks that do not complete when `initiator` starts the round.
std::vector<std::vector<ExportNode>> export_of(std::span<const Schedule> schedules, int initiator);

/// The part of one rank in a file for LogGOPSim, in GOAL; behind "num_ranks N\n". Requires: no allreduce.
std::string goal_of_rank(int rank, std::span<const ExportNode> nodes);

/// NAME.RANK.et, as readers of Chakra want the files of a job to be called.
std::string chakra_file(const std::string& name, int rank);

/// A whole such file, as MLCommons Chakra defines execution traces. docs/other_simulators.md has the fields.
std::string chakra_of_rank(int rank, std::span<const ExportNode> nodes);

}  // namespace stretto
