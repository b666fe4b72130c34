#include "stretto/simulate/cluster.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace stretto {

struct SimulatedCluster::Message {
  int src = 0;
  int dst = 0;
  Envelope envelope;
  std::vector<std::byte> head;
  const std::byte* body = nullptr;
  SendToken token = kNoToken;
};

/// A message to deliver, or something to run on behalf of a rank.
struct SimulatedCluster::Event {
  TimePoint time;
  std::uint64_t order;  // ties break by it
  int rank;
  Message* message;
  std::function<void()> run;
};

struct SimulatedCluster::Later {
  bool operator()(const Event& a, const Event& b) const {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }
};

class SimulatedCluster::Node final : public Transport {
 public:
  Node(SimulatedCluster& cluster, int rank) : cluster_(cluster), rank_(rank), bell_(words_, false) {}

  int rank() const override { return rank_; }
  int size() const override { return cluster_.size(); }
  const char* name() const override { return "simulated"; }
  bool carries_payload() const override { return cluster_.network_.payload; }
  Doorbell& doorbell() override { return bell_; }
  SharedArena* arena() override { return shared ? &*shared : nullptr; }

  void send(int peer, Envelope envelope, std::span<const std::byte> head, std::span<const std::byte> body,
            SendToken token) override {
    if (crashed) return;
    envelope.head_bytes = static_cast<std::uint32_t>(head.size());
    envelope.body_bytes = body.size();
    if (cluster_.nodes_[static_cast<std::size_t>(peer)]->crashed) {
      if (token != kNoToken) sent.push_back(token);
      return;
    }
    Message* message = cluster_.new_message();
    message->src = rank_;
    message->dst = peer;
    message->envelope = envelope;
    message->head.assign(head.begin(), head.end());
    message->body = body.data();
    message->token = token;
    cluster_.post(message);
  }

  bool poll(MessageSink& sink) override {
    bool any = false;
    while (!losses.empty()) {
      const auto [peer, reason] = losses.back();
      losses.pop_back();
      sink.lost(peer, reason);
      any = true;
    }
    // What completes may send and deliver more: take the lists as they are.
    std::swap(sent, completing_);
    for (SendToken token : completing_) sink.sent(token);
    any |= !completing_.empty();
    completing_.clear();
    std::swap(inbox, arriving_);
    for (Message* message : arriving_) {
      std::byte* to = sink.begin(message->src, message->envelope, message->head);
      const std::uint64_t bytes = message->envelope.body_bytes;
      if (to != nullptr && message->body != nullptr && bytes > 0) std::memcpy(to, message->body, bytes);
      sink.end(message->src);
      any = true;
      if (message->token != kNoToken) {
        Node& sender = *cluster_.nodes_[static_cast<std::size_t>(message->src)];
        sender.sent.push_back(message->token);
        if (!sender.crashed) to_wake_.push_back(message->src);
      }
      cluster_.free_messages_.push_back(message);
    }
    arriving_.clear();
    for (int src : to_wake_) cluster_.push(cluster_.now(), src, nullptr, nullptr);
    to_wake_.clear();
    return any;
  }

  std::vector<Message*> inbox;
  std::vector<SendToken> sent;
  std::vector<std::pair<int, Error>> losses;
  std::function<void()> wake;
  std::optional<SharedArena> shared;
  TimePoint stopped_until;
  TimePoint busy_until;
  bool crashed = false;

 private:
  SimulatedCluster& cluster_;
  const int rank_;
  DoorbellWords words_;
  Doorbell bell_;
  std::vector<Message*> arriving_;
  std::vector<SendToken> completing_;
  std::vector<int> to_wake_;
};

SimulatedCluster::SimulatedCluster(int ranks, NetworkOptions network, std::uint64_t seed)
    : network_(network), random_(seed, 0x636c7573746572) {
  for (int rank = 0; rank < ranks; ++rank) nodes_.push_back(std::make_unique<Node>(*this, rank));
  last_arrival_.resize(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks));
}

SimulatedCluster::~SimulatedCluster() = default;

Transport& SimulatedCluster::transport(int rank) {
  return *nodes_[static_cast<std::size_t>(rank)];
}

void SimulatedCluster::FreeMemory::operator()(std::byte* memory) const {
  std::free(memory);
}

void SimulatedCluster::share_memory(std::uint64_t bytes) {
  // Pages nobody touches cost nothing.
  shared_.reset(static_cast<std::byte*>(std::calloc(bytes, 1)));
  STRETTO_CHECK(shared_ != nullptr, "no ", bytes, " bytes");
  for (int rank = 0; rank < size(); ++rank) {
    const auto ring = [this](int peer) { push(now() + network_.latency, peer, nullptr, nullptr); };
    nodes_[static_cast<std::size_t>(rank)]->shared.emplace(std::span(shared_.get(), bytes), rank, size(), ring, true);
  }
}

void SimulatedCluster::on_wake(int rank, std::function<void()> wake) {
  nodes_[static_cast<std::size_t>(rank)]->wake = std::move(wake);
}

void SimulatedCluster::push(TimePoint time, int rank, std::function<void()> run, Message* message) {
  if (!run) ++under_way_;
  queue_.push_back({time, order_++, rank, message, std::move(run)});
  std::push_heap(queue_.begin(), queue_.end(), Later{});
}

void SimulatedCluster::at(TimePoint time, int rank, std::function<void()> run) {
  push(std::max(time, now()), rank, std::move(run), nullptr);
}

SimulatedCluster::Message* SimulatedCluster::new_message() {
  ++messages_;
  if (free_messages_.empty()) {
    all_messages_.push_back(std::make_unique<Message>());
    return all_messages_.back().get();
  }
  Message* message = free_messages_.back();
  free_messages_.pop_back();
  return message;
}

void SimulatedCluster::post(Message* message) {
  Node& sender = *nodes_[static_cast<std::size_t>(message->src)];
  const std::size_t link =
      static_cast<std::size_t>(message->src) * nodes_.size() + static_cast<std::size_t>(message->dst);
  const double factor = link_factor_.empty() ? 1.0 : link_factor_[link];
  const double bytes = static_cast<double>(sizeof(Envelope) + message->head.size() + message->envelope.body_bytes);
  const Duration jitter(
      network_.jitter > Duration::zero()
          ? static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(network_.jitter.count()) + 1))
          : 0);
  sender.busy_until = std::max(sender.busy_until, now()) + network_.overhead;
  const Duration travel =
      from_seconds(factor * (seconds(network_.latency + jitter) + bytes / network_.bytes_per_second));
  TimePoint arrival = sender.busy_until + travel;
  arrival = std::max(arrival, last_arrival_[link] + Duration(1));
  last_arrival_[link] = arrival;
  push(arrival, message->dst, nullptr, message);
}

bool SimulatedCluster::run_next() {
  if (queue_.empty()) return false;
  std::pop_heap(queue_.begin(), queue_.end(), Later{});
  Event event = std::move(queue_.back());
  queue_.pop_back();
  clock_.advance_to(std::max(event.time, now()));
  Node& node = *nodes_[static_cast<std::size_t>(event.rank)];
  if (node.crashed) {
    if (!event.run) --under_way_;
    if (event.message != nullptr && event.message->token != kNoToken) {
      nodes_[static_cast<std::size_t>(event.message->src)]->sent.push_back(event.message->token);
      wake(event.message->src);
    }
    return true;
  }
  if (node.stopped_until > now()) {
    event.time = node.stopped_until;
    queue_.push_back(std::move(event));  // keeps its place among those that wait
    std::push_heap(queue_.begin(), queue_.end(), Later{});
    return true;
  }
  ++happened_;
  if (!event.run) --under_way_;
  if (event.message != nullptr) {
    node.inbox.push_back(event.message);
    wake(event.rank);
  } else if (event.run) {
    event.run();
  } else {
    wake(event.rank);
  }
  return true;
}

void SimulatedCluster::wake(int rank) {
  Node& node = *nodes_[static_cast<std::size_t>(rank)];
  if (node.wake) node.wake();
}

void SimulatedCluster::slow_link(int src, int dst, double factor) {
  if (link_factor_.empty()) link_factor_.assign(nodes_.size() * nodes_.size(), 1.0);
  link_factor_[static_cast<std::size_t>(src) * nodes_.size() + static_cast<std::size_t>(dst)] = factor;
}

void SimulatedCluster::stop(int rank, TimePoint until) {
  Node& node = *nodes_[static_cast<std::size_t>(rank)];
  node.stopped_until = std::max(node.stopped_until, until);
}

void SimulatedCluster::crash(int rank, Duration notice) {
  nodes_[static_cast<std::size_t>(rank)]->crashed = true;
  under_way_ -= static_cast<std::int64_t>(
      std::erase_if(queue_, [&](const Event& e) { return e.message != nullptr && e.message->src == rank; }));
  std::make_heap(queue_.begin(), queue_.end(), Later{});
  for (int other = 0; other < size(); ++other) {
    if (other == rank) continue;
    Node& node = *nodes_[static_cast<std::size_t>(other)];
    at(now() + notice, other, [this, &node, other, rank] {
      node.losses.emplace_back(rank, Error{Errc::lost_peer, text("rank ", rank, " has crashed"), rank});
      wake(other);
    });
  }
}

}  // namespace stretto
