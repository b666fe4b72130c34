#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "stretto/base/doorbell.h"
#include "stretto/transport/job_memory.h"
#include "stretto/transport/ring.h"
#include "stretto/transport/transport.h"

namespace stretto {

/// Messages between the processes (or threads) of one host: a ring of bytes for each ordered pair of ranks.
///
/// A message goes into the ring as far as there is room; the rest follows from poll() as the reader makes room, so
/// that its size is bound by nothing. Two copies a message, no system call unless the peer sleeps. poll() looks at two
/// bits a peer, 64 peers at a time, and never waits.
///
/// A peer is lost when its mark in the job's memory says so (the launcher's work), or, in a memory without a launcher,
/// when its process has ended: then poll() looks four times a second, and poll_by() says when. A rank that died without
/// the memory being watched before it made its transport is not noticed. A send to a peer that has left or is lost
/// completes and goes nowhere.
class ShmTransport final : public Transport {
 public:
  /// `memory` must outlive the transport. At most one transport for a rank of a job, ever.
  ShmTransport(JobMemory& memory, int rank) : ShmTransport(memory, rank, Members(memory.ranks())) {}
  /// The same where the job is on several hosts: of the members those of this rank's host are in `memory`, by their
  /// places, and it can send to these alone.
  ShmTransport(JobMemory& memory, int rank, Members members);
  ~ShmTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return members_.size(); }
  void send(int peer, Envelope envelope, std::span<const std::byte> head, std::span<const std::byte> body,
            SendToken token) override;
  bool poll(MessageSink& sink) override;
  TimePoint poll_by() const override;
  Doorbell& doorbell() override { return doorbell_; }
  const Members& members() const override { return members_; }
  const char* name() const override { return "shm"; }

 private:
  struct Outgoing;
  struct Peer;
  class Watch;

  SharedArena* arena() override { return arena_ ? &*arena_ : nullptr; }

  bool push(Peer& peer, Outgoing& message);
  void push_waiting(Peer& peer);
  bool report_sent(MessageSink& sink);
  bool drain(Peer& peer, MessageSink& sink);
  struct Departures;
  Departures fates();
  bool look_at_fates(MessageSink& sink);
  void give_up(Peer& peer);
  void leave(Peer& peer, MessageSink& sink);
  void lose(Peer& peer, const std::string& how, MessageSink& sink);

  JobMemory& memory_;
  const int rank_;
  const Members members_;
  const int place_;            // of this rank on its host, by which the memory knows it
  const std::uint64_t piece_;  // bytes moved between two looks at the other side
  Doorbell doorbell_;
  std::optional<SharedArena> arena_;
  std::span<std::atomic<std::uint64_t>> with_data_, with_room_;  // see JobMemory
  std::vector<std::unique_ptr<Peer>> peers_;                     // by place; null for this rank
  std::vector<SendToken> sent_, reporting_;                      // complete, to be reported by the next poll()
  std::uint32_t changes_seen_ = 0;                               // of fates
  std::unique_ptr<Watch> watch_;                                 // null where a launcher watches
  alignas(16) std::array<std::byte, kMaxHeadBytes> head_;
};

}  // namespace stretto
