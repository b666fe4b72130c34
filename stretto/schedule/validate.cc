#include "stretto/schedule/validate.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "stretto/base/error.h"
#include "stretto/schedule/execution.h"

namespace stretto {
namespace {

/// A send or recv, ordered so that partners meet when the sends and the recvs of a job are both sorted.
struct End {
  int src = 0;
  int dst = 0;
  std::uint16_t channel = 0;
  OpId op = kNoOp;

  auto key() const { return std::tuple(src, dst, channel); }
};

std::vector<End> ends_of(std::span<const Schedule> schedules, OpKind kind) {
  std::vector<End> out;
  for (const Schedule& schedule : schedules) {
    const int rank = schedule.rank();
    const auto ops = schedule.ops();
    for (OpId id = 0; id < ops.size(); ++id) {
      if (ops[id].kind != kind) continue;
      const int src = kind == OpKind::send ? rank : ops[id].peer;
      const int dst = kind == OpKind::send ? ops[id].peer : rank;
      out.push_back({src, dst, ops[id].channel, id});
    }
  }
  std::sort(out.begin(), out.end(), [](const End& a, const End& b) { return a.key() < b.key(); });
  return out;
}

std::string at(std::span<const Schedule> schedules, int rank, OpId op) {
  return text("rank ", rank, "'s ", describe(schedules[static_cast<std::size_t>(rank)], op));
}

}  // namespace

std::vector<Message> messages_of(std::span<const Schedule> schedules) {
  const auto sends = ends_of(schedules, OpKind::send);
  const auto recvs = ends_of(schedules, OpKind::recv);
  std::vector<Message> out;
  auto recv = recvs.begin();
  for (const End& send : sends) {
    while (recv != recvs.end() && recv->key() < send.key()) ++recv;
    if (recv != recvs.end() && recv->key() == send.key()) out.push_back({send.src, send.op, send.dst, recv->op});
  }
  std::sort(out.begin(), out.end(),
            [](const Message& a, const Message& b) { return std::tie(a.src, a.send) < std::tie(b.src, b.send); });
  return out;
}

void validate(std::span<const Schedule> schedules) {
  const int ranks = static_cast<int>(schedules.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const Schedule& schedule = schedules[static_cast<std::size_t>(rank)];
    if (schedule.rank() != rank || schedule.ranks() != ranks) {
      throw UsageError(text("schedule ", rank, " of ", ranks, " is \"", schedule.name(), "\" of rank ", schedule.rank(),
                            " of ", schedule.ranks(), "; expected one for each rank of the job, in order"));
    }
  }

  const auto messages = messages_of(schedules);
  std::vector<std::vector<bool>> matched;
  for (const Schedule& schedule : schedules) matched.emplace_back(schedule.ops().size(), false);
  for (const Message& m : messages) {
    matched[static_cast<std::size_t>(m.src)][m.send] = true;
    matched[static_cast<std::size_t>(m.dst)][m.recv] = true;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const auto ops = schedules[static_cast<std::size_t>(rank)].ops();
    for (OpId id = 0; id < ops.size(); ++id) {
      const bool sends = ops[id].kind == OpKind::send;
      if ((!sends && ops[id].kind != OpKind::recv) || matched[static_cast<std::size_t>(rank)][id]) continue;
      throw UsageError(text(at(schedules, rank, id), " has no matching ", sends ? "recv" : "send", " on rank ",
                            ops[id].peer, "; it needs one ", sends ? "from" : "to", " rank ", rank, " on channel ",
                            ops[id].channel));
    }
  }

  for (const Message& m : messages) {
    const Schedule& src = schedules[static_cast<std::size_t>(m.src)];
    const Schedule& dst = schedules[static_cast<std::size_t>(m.dst)];
    const Op& send = src.op(m.send);
    const Op& recv = dst.op(m.recv);
    if (bytes_of(src, send) != bytes_of(dst, recv)) {
      throw UsageError(text(at(schedules, m.src, m.send), " sends ", bytes_of(src, send), " bytes, ",
                            at(schedules, m.dst, m.recv), " takes ", bytes_of(dst, recv), "; they must be equal"));
    }
    if (send.with_header != recv.with_header) {
      throw UsageError(text(at(schedules, m.src, m.send), send.with_header ? " carries" : " does not carry",
                            " a header, ", at(schedules, m.dst, m.recv),
                            recv.with_header ? " expects" : " does not expect", " one; both or neither must"));
    }
  }
  Execution(schedules, kEveryRank).require_completion();
}

}  // namespace stretto
