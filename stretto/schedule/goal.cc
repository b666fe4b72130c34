#include <algorithm>
#include <queue>
#include <sstream>
#include <tuple>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/schedule/print.h"
#include "stretto/schedule/validate.h"

namespace stretto {
namespace {

constexpr std::uint64_t kBytesPerNanosecond = 8;
constexpr Duration kUnit{1000};

/// The state of an operation in that run.
struct Fate {
  std::uint32_t counted = 0;   // triggers and predecessors that finished before it fired
  std::vector<OpId> required;  // those predecessors
  bool fired = false;
  bool arrived = false;  // recv: the message is there
  bool finished = false;
};

/// One execution of the schedules of all ranks at unit cost; see to_goal().
class Execution {
 public:
  Execution(std::span<const Schedule> schedules, int initiator) : schedules_(schedules) {
    for (const Schedule& schedule : schedules) {
      fates_.emplace_back(schedule.ops().size());
      recv_of_.emplace_back(schedule.ops().size());
    }
    for (const Message& m : messages_of(schedules)) recv_of_[index(m.src)][m.send] = {m.dst, m.recv};

    for (int rank = 0; rank < static_cast<int>(schedules.size()); ++rank) {
      const auto ops = schedules[index(rank)].ops();
      for (OpId id = 0; id < ops.size(); ++id) {
        Fate& fate = fates_[index(rank)][id];
        if (ops[id].external && rank == initiator) ++fate.counted;
        if (fate.counted == ops[id].need) fire(rank, id, Duration{0});
      }
    }
    while (!ends_.empty()) {
      const End end = ends_.top();
      ends_.pop();
      finish(end);
    }
  }

  const Fate& fate(int rank, OpId op) const { return fates_[index(rank)][op]; }

 private:
  struct End {
    Duration time;
    std::uint64_t sequence;  // of ends at the same time, the one that fired first comes first
    int rank;
    OpId op;
    friend bool operator>(const End& a, const End& b) {
      return std::tie(a.time, a.sequence) > std::tie(b.time, b.sequence);
    }
  };

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  void fire(int rank, OpId id, Duration now) {
    const Op& op = schedules_[index(rank)].op(id);
    Fate& fate = fates_[index(rank)][id];
    fate.fired = true;
    if (op.kind == OpKind::recv && !fate.arrived) return;
    ends_.push({now + (op.kind == OpKind::delay ? op.delay : kUnit), sequence_++, rank, id});
  }

  void finish(const End& end) {
    fates_[index(end.rank)][end.op].finished = true;
    const Schedule& schedule = schedules_[index(end.rank)];
    if (schedule.op(end.op).kind == OpKind::send) {
      const auto [peer, recv] = recv_of_[index(end.rank)][end.op];
      Fate& fate = fates_[index(peer)][recv];
      fate.arrived = true;
      if (fate.fired) fire(peer, recv, end.time);
    }
    for (const OpId next : schedule.successors(end.op)) {
      Fate& fate = fates_[index(end.rank)][next];
      if (fate.fired) continue;
      fate.required.push_back(end.op);
      if (++fate.counted == schedule.op(next).need) fire(end.rank, next, end.time);
    }
  }

  std::span<const Schedule> schedules_;
  std::vector<std::vector<Fate>> fates_;
  std::vector<std::vector<std::pair<int, OpId>>> recv_of_;  // by sender and its send
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::uint64_t sequence_ = 0;
};

std::uint64_t nanoseconds_of(const Schedule& schedule, const Op& op) {
  if (op.kind == OpKind::delay) return static_cast<std::uint64_t>(op.delay.count());
  return (bytes_of(schedule, op) + kBytesPerNanosecond - 1) / kBytesPerNanosecond;
}

}  // namespace

std::string to_goal(std::span<const Schedule> schedules, int initiator) {
  validate(schedules);
  const int ranks = static_cast<int>(schedules.size());
  if (initiator < 0 || initiator >= ranks) {
    throw UsageError(text("initiator ", initiator, " is outside the job; expected a rank from 0 to ", ranks - 1));
  }
  const Execution execution(schedules, initiator);

  std::vector<std::vector<std::uint64_t>> tags;
  std::vector<std::vector<bool>> kept;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto num_ops = schedules[static_cast<std::size_t>(rank)].ops().size();
    tags.emplace_back(num_ops);
    kept.emplace_back(num_ops);
    for (OpId id = 0; id < num_ops; ++id) kept.back()[id] = execution.fate(rank, id).finished;
  }
  std::uint64_t num_tags = 0;
  for (const Message& m : messages_of(schedules)) {
    if (!kept[static_cast<std::size_t>(m.src)][m.send]) continue;
    tags[static_cast<std::size_t>(m.src)][m.send] = tags[static_cast<std::size_t>(m.dst)][m.recv] = num_tags++;
    kept[static_cast<std::size_t>(m.dst)][m.recv] = true;
  }

  std::ostringstream out;
  out << "num_ranks " << ranks << "\n";
  for (int rank = 0; rank < ranks; ++rank) {
    const Schedule& schedule = schedules[static_cast<std::size_t>(rank)];
    out << "\nrank " << rank << " {\n";
    for (OpId id = 0; id < schedule.ops().size(); ++id) {
      if (!kept[static_cast<std::size_t>(rank)][id]) continue;
      const Op& op = schedule.op(id);
      out << 'l' << id << ": ";
      if (op.kind == OpKind::send || op.kind == OpKind::recv) {
        out << name_of(op.kind) << ' ' << std::max<std::uint64_t>(1, bytes_of(schedule, op)) << "b "
            << (op.kind == OpKind::send ? "to " : "from ") << op.peer << " tag "
            << tags[static_cast<std::size_t>(rank)][id] << '\n';
      } else {
        out << "calc " << nanoseconds_of(schedule, op) << '\n';
      }
    }
    for (OpId id = 0; id < schedule.ops().size(); ++id) {
      if (!execution.fate(rank, id).finished) continue;
      for (const OpId p : execution.fate(rank, id).required) out << 'l' << id << " requires l" << p << '\n';
    }
    out << "}\n";
  }
  return std::move(out).str();
}

}  // namespace stretto
