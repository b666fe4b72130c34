#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "stretto/base/doorbell.h"
#include "stretto/base/error.h"
#include "stretto/simulate/cluster.h"
#include "stretto/transport/shared_arena.h"

// The parts of a SimulatedCluster, for its source alone.

namespace stretto {

struct SimulatedCluster::World {
  std::vector<int> nodes;    // by rank
  Members members;           // its ranks and their hosts
  std::vector<Port*> ports;  // by rank; null: it has not come, or is gone
};

struct SimulatedCluster::Message {
  std::shared_ptr<World> world;
  int from = 0, to = 0;  // ranks there
  int src = 0;           // their nodes
  int dst = 0;
  Envelope envelope;
  std::vector<std::byte> head;
  const std::byte* body = nullptr;
  std::vector<std::byte> copy;  // of an eager body
  SendToken token = kNoToken;
  int pieces = 1;               // of the body
  int come = 0;                 // pieces delivered
  std::byte* target = nullptr;  // from the first piece on
  Duration transfer{0};         // at the receiver's card, alone
  bool reaching = false;        // on its way there
  bool queued = false;          // waits for others at both cards
  bool last_piece() const { return come + 1 >= pieces; }
};

/// A machine, and its card. Ranks of several worlds may be there.
struct SimulatedCluster::Node {
  explicit Node(int number) : rank(number) {}

  /// Of the messages to one peer: none overtakes another.
  struct Arrival {
    int peer;
    TimePoint time;                 // when the last one arrives
    TimePoint reached;              // when the last one that goes through the receiver's card comes there
    int reaching = 0;               // so many are on their way to it, or there
    std::uint64_t messages = 0;     // so many have been sent
    std::vector<Message*> there{};  // at fair cards, in order; the first is under way
  };
  Arrival& last_arrival(int peer) {
    const auto at = std::ranges::lower_bound(arrivals, peer, {}, &Arrival::peer);
    if (at != arrivals.end() && at->peer == peer) return *at;
    return *arrivals.insert(at, {peer, TimePoint(), TimePoint()});
  }

  /// Forgets the messages at fair cards, and returns how many there were.
  std::int64_t drop_there() {
    std::int64_t dropped = 0;
    for (Arrival& arrival : arrivals) {
      dropped += static_cast<std::int64_t>(arrival.there.size());
      arrival.there.clear();
    }
    return dropped;
  }

  const int rank;
  std::unique_ptr<Port> port;  // of the rank in the world of all nodes
  std::vector<std::pair<int, Error>> losses;
  std::function<void()> wake;
  TimePoint wakes_at = TimePoint::never();  // the earliest of wake_by() under way
  std::optional<SharedArena> shared;
  TimePoint stopped_until;
  TimePoint busy_until;
  TimePoint sending_until, receiving_until;  // its card, if it is shared
  bool crashed = false;
  std::vector<Arrival> arrivals;  // of peers that have been sent something, sorted: most ranks talk to few
};

/// A rank of a world, at its node.
class SimulatedCluster::Port final : public Transport {
 public:
  Port(SimulatedCluster& cluster, std::shared_ptr<World> world, int rank)
      : cluster_(cluster), world_(std::move(world)), rank_(rank), node_(node_of(rank)), bell_(words_, false) {
    STRETTO_CHECK(world_->ports[static_cast<std::size_t>(rank)] == nullptr, "rank ", rank, " is in its world already");
    world_->ports[static_cast<std::size_t>(rank)] = this;
  }
  ~Port() override {
    world_->ports[static_cast<std::size_t>(rank_)] = nullptr;
    if (world_ == cluster_.all_) return;  // it ends with the cluster, and all messages do
    for (Message* message : inbox) cluster_.drop(message);
  }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_->nodes.size()); }
  const char* name() const override { return "simulated"; }
  bool carries_payload() const override { return cluster_.network_.payload; }
  Doorbell& doorbell() override { return bell_; }
  const Members& members() const override { return world_->members; }

  void send(int peer, Envelope envelope, std::span<const std::byte> head, std::span<const std::byte> body,
            SendToken token) override {
    STRETTO_CHECK(peer != rank_, "rank ", rank_, " sends to itself");
    STRETTO_CHECK(head.size() <= kMaxHeadBytes, "head of ", head.size(), " bytes");
    if (node_.crashed) return;
    envelope.head_bytes = static_cast<std::uint32_t>(head.size());
    envelope.body_bytes = body.size();
    if (node_of(peer).crashed) {
      if (token != kNoToken) sent.push_back(token);
      return;
    }
    Message* message = cluster_.new_message();
    message->world = world_;
    message->from = rank_;
    message->to = peer;
    message->src = node_.rank;
    message->dst = node_of(peer).rank;
    message->envelope = envelope;
    message->head.assign(head.begin(), head.end());
    message->body = body.data();
    message->token = token;
    if (static_cast<std::int64_t>(body.size()) <= cluster_.network_.eager_bytes) complete(*message, body);
    cluster_.post(message);
  }

  TimePoint poll_by() const override { return sent.empty() ? TimePoint::never() : TimePoint{}; }

  bool poll(MessageSink& sink) override {
    bool any = false;
    while (node_.port.get() == this && !node_.losses.empty()) {
      const auto [peer, reason] = node_.losses.back();
      node_.losses.pop_back();
      sink.lost(peer, reason);
      any = true;
    }
    // The sink may send, and complete, more: work on the lists as they are now.
    std::swap(sent, completing_);
    for (SendToken token : completing_) sink.sent(token);
    any |= !completing_.empty();
    completing_.clear();
    std::swap(inbox, arriving_);
    for (Message* message : arriving_) {
      any = true;
      const bool is_lost = SimulatedCluster::sender_of(*message) == nullptr;
      if (is_lost || deliver(*message, sink)) cluster_.free(message);
    }
    arriving_.clear();
    for (int src : to_wake_) cluster_.push(cluster_.now(), src);
    to_wake_.clear();
    return any;
  }

  std::vector<Message*> inbox;
  std::vector<SendToken> sent;

 private:
  SharedArena* arena() override { return node_.port.get() == this && node_.shared ? &*node_.shared : nullptr; }

  Node& node_of(int rank) const {
    return *cluster_.nodes_[static_cast<std::size_t>(world_->nodes[static_cast<std::size_t>(rank)])];
  }

  /// Ends the send of an eager message: the sender's memory is the sender's again.
  void complete(Message& message, std::span<const std::byte> body) {
    if (message.body != nullptr) {
      message.copy.assign(body.begin(), body.end());
      message.body = message.copy.data();
    }
    if (message.token != kNoToken) sent.push_back(std::exchange(message.token, kNoToken));
  }

  /// The next piece of a message. Returns whether it was the last.
  bool deliver(Message& message, MessageSink& sink) {
    if (message.come == 0) message.target = sink.begin(message.from, message.envelope, message.head);
    const std::uint64_t bytes = message.envelope.body_bytes;
    const auto cut = [&](int piece) {
      return bytes * static_cast<std::uint64_t>(piece) / static_cast<std::uint64_t>(message.pieces);
    };
    const std::uint64_t from = cut(message.come), until = cut(message.come + 1);
    if (message.target != nullptr && message.body != nullptr && until > from) {
      std::memcpy(message.target + from, message.body + from, until - from);
    }
    if (++message.come < message.pieces) return false;
    sink.end(message.from);
    if (message.token == kNoToken) return true;
    Port* const sender = cluster_.sender_of(message);
    sender->sent.push_back(message.token);
    if (!sender->node_.crashed) to_wake_.push_back(message.src);
    return true;
  }

  SimulatedCluster& cluster_;
  const std::shared_ptr<World> world_;
  const int rank_;
  Node& node_;
  DoorbellWords words_;
  Doorbell bell_;
  std::vector<Message*> arriving_;
  std::vector<SendToken> completing_;
  std::vector<int> to_wake_;
};

}  // namespace stretto
