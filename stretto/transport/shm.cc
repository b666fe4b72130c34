#include "stretto/transport/shm.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <csignal>
#include <type_traits>

namespace stretto {
namespace {

using namespace std::chrono_literals;

static_assert(std::is_trivially_copyable_v<Envelope>, "envelopes travel as they lie in memory");

constexpr Duration kWatchEvery = 250ms;

}  // namespace

/// A message that has not yet been written, or not whole.
struct ShmTransport::Outgoing {
  Envelope envelope;
  std::span<const std::byte> head;
  std::span<const std::byte> body;  // what is left of it
  SendToken token;
  bool begun = false;                // envelope and head are in the ring
  std::vector<std::byte> head_kept;  // where `head` lies once the message has to wait
};

struct ShmTransport::Peer {
  /// `self` and `peer`: places on the host.
  Peer(JobMemory& memory, int self, int peer, int rank)
      : rank(rank),
        place(peer),
        writer(memory.ring_words(self, peer), memory.ring_data(self, peer), memory.ring_bytes()),
        reader(memory.ring_words(peer, self), memory.ring_data(peer, self), memory.ring_bytes()),
        doorbell(memory.doorbell(peer), true),
        my_data_bit(memory.peers_with_data(peer)[static_cast<std::size_t>(self) / 64]),
        my_room_bit(memory.peers_with_room(peer)[static_cast<std::size_t>(self) / 64]),
        my_bit(std::uint64_t{1} << (self % 64)) {}

  /// Tells the peer to look at one of our rings. If the bit was still set, this rank has rung for it or is about to.
  void tell(std::atomic<std::uint64_t>& bits) {
    // Released after the store to the ring; pairs with the exchange in poll().
    if ((bits.fetch_or(my_bit, std::memory_order_acq_rel) & my_bit) == 0) doorbell.ring();
  }
  void tell_data() {
    writer.publish();
    tell(my_data_bit);
  }

  const int rank, place;
  RingWriter writer;
  RingReader reader;
  Doorbell doorbell;
  std::atomic<std::uint64_t>& my_data_bit;
  std::atomic<std::uint64_t>& my_room_bit;
  const std::uint64_t my_bit;
  std::deque<Outgoing> waiting;  // in order; the first may be half written
  bool gone = false;             // has left or is lost: sends go nowhere
  bool broken = false;           // has published what is no message: nothing is read any more

  bool in_body = false;       // between begin() and end()
  std::byte* body = nullptr;  // where the rest of it goes, or null
  std::uint64_t body_left = 0;
};

/// Watches the processes of the peers, where no launcher does.
class ShmTransport::Watch {
 public:
  explicit Watch(int ranks) : processes_(static_cast<std::size_t>(ranks), pollfd{-1, POLLIN, 0}) {}
  ~Watch() {
    for (const auto& process : processes_) {
      if (process.fd >= 0) close(process.fd);
    }
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  TimePoint due() const { return due_; }

  /// The places of the ranks whose processes have ended since the last look.
  std::vector<int> ended(const JobMemory& memory) {
    due_ = clock_.now() + kWatchEvery;
    std::vector<int> out;
    for (int rank = 0; rank < memory.ranks(); ++rank) {
      pollfd& process = processes_[static_cast<std::size_t>(rank)];
      const pid_t id = memory.process(rank);
      if (process.fd != -1 || id == 0 || id == getpid()) continue;
      process.fd = static_cast<int>(syscall(SYS_pidfd_open, id, 0));
      if (process.fd < 0 && kill(id, 0) != 0 && errno == ESRCH) {
        process.fd = kEnded;
        out.push_back(rank);
      }
    }
    if (::poll(processes_.data(), processes_.size(), 0) <= 0) return out;
    for (int rank = 0; rank < memory.ranks(); ++rank) {
      pollfd& process = processes_[static_cast<std::size_t>(rank)];
      if (process.fd < 0 || process.revents == 0) continue;
      close(process.fd);
      process.fd = kEnded;
      out.push_back(rank);
    }
    return out;
  }

  const SteadyClock& clock() const { return clock_; }

 private:
  static constexpr int kEnded = -2;

  SteadyClock clock_;
  std::vector<pollfd> processes_;  // per rank: fd −1 not opened yet, kEnded
  TimePoint due_;
};

ShmTransport::ShmTransport(JobMemory& memory, int rank, Members members)
    : memory_(memory),
      rank_(rank),
      members_(std::move(members)),
      place_(members_.place_of(rank)),
      piece_(memory.ring_bytes() / 4),
      doorbell_(memory.doorbell(place_), true),
      with_data_(memory.peers_with_data(place_)),
      with_room_(memory.peers_with_room(place_)) {
  const std::span<const int> here = host().members;
  STRETTO_CHECK(std::ssize(here) == memory.ranks(), "memory of ", memory.ranks(), " ranks for ", here.size());
  for (int place = 0; place < memory.ranks(); ++place) {
    const int peer = here[static_cast<std::size_t>(place)];
    peers_.push_back(peer == rank ? nullptr : std::make_unique<Peer>(memory, place_, place, peer));
  }
  if (!memory.arena().empty()) {
    arena_.emplace(memory.arena(), place_, memory.ranks(),
                   [&memory](int place) { Doorbell(memory.doorbell(place), true).ring(); });
  }
  memory_.enter(place_, getpid());
  if (!memory_.watched()) watch_ = std::make_unique<Watch>(memory.ranks());
}

ShmTransport::~ShmTransport() = default;

void ShmTransport::send(int to, Envelope envelope, std::span<const std::byte> head, std::span<const std::byte> body,
                        SendToken token) {
  STRETTO_CHECK(to >= 0 && to < size() && to != rank_ && members_.host_of(to) == members_.host_of(rank_), "rank ",
                rank_, " sends to ", to);
  STRETTO_CHECK(head.size() <= kMaxHeadBytes, "head of ", head.size(), " bytes");
  STRETTO_CHECK(body.data() != nullptr || body.empty(), "body of ", body.size(), " bytes without address");
  envelope.head_bytes = static_cast<std::uint32_t>(head.size());
  envelope.body_bytes = body.size();
  Peer& peer = *peers_[static_cast<std::size_t>(members_.place_of(to))];
  Outgoing message{.envelope = envelope, .head = head, .body = body, .token = token};
  if (peer.gone || (peer.waiting.empty() && push(peer, message))) {
    if (token != kNoToken) sent_.push_back(token);
    return;
  }
  if (!message.begun) message.head_kept.assign(head.begin(), head.end());
  peer.waiting.push_back(std::move(message));
  peer.waiting.back().head = peer.waiting.back().head_kept;
}

/// Writes as much of the message as there is room for. Returns whether it is all written; if not, the peer will tell
/// when it has made room.
bool ShmTransport::push(Peer& peer, Outgoing& message) {
  if (!message.begun) {
    // In one piece, so that the reader always finds an envelope with its head.
    const std::uint64_t bytes = sizeof(Envelope) + message.head.size();
    if (peer.writer.room(bytes) < bytes && !peer.writer.ask_for_room(bytes)) return false;
    peer.writer.write(&message.envelope, sizeof(Envelope));
    if (!message.head.empty()) peer.writer.write(message.head.data(), message.head.size());
    message.begun = true;
    if (message.body.empty()) {
      peer.tell_data();
      return true;
    }
  }
  while (true) {
    const std::uint64_t wanted = std::min<std::uint64_t>(message.body.size(), piece_);
    const std::uint64_t bytes = std::min(wanted, peer.writer.room(wanted));
    peer.writer.write(message.body.data(), bytes);
    peer.tell_data();
    message.body = message.body.subspan(bytes);
    if (message.body.empty()) return true;
    if (bytes < wanted && !peer.writer.ask_for_room(1)) return false;
  }
}

void ShmTransport::push_waiting(Peer& peer) {
  while (!peer.waiting.empty() && push(peer, peer.waiting.front())) {
    if (peer.waiting.front().token != kNoToken) sent_.push_back(peer.waiting.front().token);
    peer.waiting.pop_front();
  }
}

bool ShmTransport::report_sent(MessageSink& sink) {
  if (sent_.empty()) return false;
  reporting_.swap(sent_);  // a callback may send
  for (const SendToken token : reporting_) sink.sent(token);
  reporting_.clear();
  return true;
}

bool ShmTransport::poll(MessageSink& sink) {
  const auto for_each = [this](std::span<std::atomic<std::uint64_t>> sets, auto&& visit) {
    bool any = false;
    for (std::size_t w = 0; w < sets.size(); ++w) {
      if (sets[w].load(std::memory_order_relaxed) == 0) continue;           // most of the time; nothing depends on it
      std::uint64_t bits = sets[w].exchange(0, std::memory_order_acq_rel);  // pairs with fetch_or in Peer::tell()
      for (; bits != 0; bits &= bits - 1) {
        visit(*peers_[64 * w + static_cast<std::size_t>(std::countr_zero(bits))]);
        any = true;
      }
    }
    return any;
  };
  bool moved = for_each(with_room_, [this](Peer& peer) { push_waiting(peer); });
  moved |= report_sent(sink);
  moved |= for_each(with_data_, [&](Peer& peer) { drain(peer, sink); });
  moved |= look_at_fates(sink);
  return moved;
}

TimePoint ShmTransport::poll_by() const {
  if (!sent_.empty()) return {};
  return watch_ != nullptr ? watch_->due() : TimePoint::never();
}

/// Delivers the bytes that the peer has published up to now. Returns whether there were any.
bool ShmTransport::drain(Peer& peer, MessageSink& sink) {
  std::uint64_t there = peer.broken ? 0 : peer.reader.available();
  if (there == 0) return false;
  std::uint64_t unreleased = 0;
  const auto release = [&] {
    unreleased = 0;
    if (peer.reader.release()) peer.tell(peer.my_room_bit);
  };
  while (there > 0) {
    if (!peer.in_body) {
      Envelope envelope;
      if (there >= sizeof(envelope)) peer.reader.read(&envelope, sizeof(envelope));
      // It comes from the peer's memory: nothing here may go beyond its bounds, whatever stands in it.
      if (there < sizeof(envelope) || envelope.head_bytes > kMaxHeadBytes ||
          there < sizeof(envelope) + envelope.head_bytes) {
        peer.broken = true;
        lose(peer, "it has sent what is no message", sink);
        return true;
      }
      peer.reader.read(head_.data(), envelope.head_bytes);
      there -= sizeof(envelope) + envelope.head_bytes;
      unreleased += sizeof(envelope) + envelope.head_bytes;
      peer.in_body = true;
      peer.body_left = envelope.body_bytes;
      peer.body = sink.begin(peer.rank, envelope, {head_.data(), envelope.head_bytes});
    }
    const std::uint64_t bytes = std::min({there, peer.body_left, piece_});
    peer.reader.read(peer.body, bytes);
    if (peer.body != nullptr) peer.body += bytes;
    peer.body_left -= bytes;
    there -= bytes;
    unreleased += bytes;
    if (unreleased >= piece_) release();
    if (peer.body_left == 0) {
      peer.in_body = false;
      sink.end(peer.rank);
    }
  }
  release();
  return true;
}

/// Peers that are gone since the last look.
struct ShmTransport::Departures {
  std::vector<Peer*> left;
  std::vector<std::pair<Peer*, std::string>> lost;  // with the reason, the first to be lost first
};

/// What the memory of the job says of the peers at one moment. A rank may leave because it has seen another one go: a
/// rank that sees its fate must see the other fate, too.
ShmTransport::Departures ShmTransport::fates() {
  Departures gone;
  std::vector<std::pair<RankFate, Peer*>> lost;
  // Pairs with the increment after a fate is stored: a rank that sees the count sees the fate. If the count moves while
  // the fates are read, they may be of several moments.
  for (std::uint32_t changes; (changes = memory_.changes_of_fate()) != changes_seen_; changes_seen_ = changes) {
    gone = {};
    lost.clear();
    for (const auto& peer : peers_) {
      if (peer == nullptr || peer->gone) continue;
      const RankFate fate = memory_.fate(peer->place);
      if (fate.kind == RankFate::Kind::left) gone.left.push_back(peer.get());
      if (fate.kind == RankFate::Kind::lost) lost.emplace_back(fate, peer.get());
    }
  }
  std::ranges::sort(lost, {}, [](const auto& one) { return one.first.order; });
  for (const auto& [fate, peer] : lost) gone.lost.emplace_back(peer, fate.to_string());
  return gone;
}

bool ShmTransport::look_at_fates(MessageSink& sink) {
  Departures gone = fates();
  if (watch_ != nullptr && (!gone.left.empty() || watch_->clock().now() >= watch_->due())) {
    for (const int place : watch_->ended(memory_)) {
      Peer* peer = peers_[static_cast<std::size_t>(place)].get();
      if (peer->gone || std::ranges::find(gone.left, peer) != gone.left.end()) continue;
      if (memory_.fate(place).kind == RankFate::Kind::left) {
        gone.left.push_back(peer);
      } else {
        gone.lost.emplace_back(peer, text("process ", memory_.process(place), " has ended"));
      }
    }
  }
  for (Peer* peer : gone.left) drain(*peer, sink);
  for (const auto& [peer, how] : gone.lost) lose(*peer, how, sink);  // first: the others may have left because of it
  for (Peer* peer : gone.left) leave(*peer, sink);
  return !gone.left.empty() || !gone.lost.empty();
}

/// Sends that wait for the peer complete now, and so will all later ones.
void ShmTransport::give_up(Peer& peer) {
  peer.gone = true;
  for (const Outgoing& message : peer.waiting) {
    if (message.token != kNoToken) sent_.push_back(message.token);
  }
  peer.waiting.clear();
}

void ShmTransport::leave(Peer& peer, MessageSink& sink) {
  drain(peer, sink);
  give_up(peer);
  sink.left(peer.rank);
}

void ShmTransport::lose(Peer& peer, const std::string& how, MessageSink& sink) {
  drain(peer, sink);  // whole messages of it count; the one it was in the middle of does not
  give_up(peer);
  if (const std::string why = memory_.why(peer.place); !why.empty()) {
    return sink.lost(peer.rank, {Errc::aborted, text("rank ", peer.rank, " stopped the job: ", why), peer.rank});
  }
  sink.lost(peer.rank, {Errc::lost_peer, text("rank ", peer.rank, " is lost: ", how), peer.rank});
}

}  // namespace stretto
