#include "stretto/simulate/cluster.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "stretto/simulate/cluster_parts.h"
#include "stretto/transport/job_memory.h"

namespace stretto {

/// A piece of a message to deliver, something to run on behalf of a rank, or a reason to wake it. Small, since a heap
/// moves it often.
struct SimulatedCluster::Event {
  TimePoint time;
  std::uint64_t order;  // ties break by it
  Message* message;     // null: none
  int rank;
  std::int32_t run;  // index into runs_; -1: none
};

struct SimulatedCluster::Later {
  bool operator()(const Event& a, const Event& b) const {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }
};

SimulatedCluster::SimulatedCluster(int ranks, NetworkOptions network, std::uint64_t seed)
    : network_(network), random_(seed, 0x636c7573746572) {
  STRETTO_CHECK(!network_.shared_card || network_.pieces == 1, "messages in pieces through a shared card");
  if (network_.shared_card && network_.fair_shares) shares_.emplace(ranks);
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) {
    nodes_.push_back(std::make_unique<Node>(rank));
    all.push_back(rank);
  }
  all_ = make_world(std::move(all));
  for (int rank = 0; rank < ranks; ++rank) {
    nodes_[static_cast<std::size_t>(rank)]->port = std::make_unique<Port>(*this, all_, rank);
  }
}

SimulatedCluster::~SimulatedCluster() = default;

Transport& SimulatedCluster::transport(int rank) {
  return *nodes_[static_cast<std::size_t>(rank)]->port;
}

std::shared_ptr<SimulatedCluster::World> SimulatedCluster::make_world(std::vector<int> nodes) {
  const auto ranks = static_cast<int>(nodes.size());
  return std::make_shared<World>(World{std::move(nodes), Members(ranks), std::vector<Port*>(ranks)});
}

std::unique_ptr<Transport> SimulatedCluster::enter(std::shared_ptr<World> world, int rank) {
  STRETTO_CHECK(network_.pieces == 1, "messages in pieces between ranks that may be gone");
  return std::make_unique<Port>(*this, std::move(world), rank);
}

SimulatedCluster::Traffic SimulatedCluster::sent_between_hosts(int rank) const {
  Traffic out;
  for (const Node::Arrival& arrival : nodes_[static_cast<std::size_t>(rank)]->arrivals) {
    if (all_->members.host_of(arrival.peer) == all_->members.host_of(rank)) continue;
    ++out.peers;
    out.messages += arrival.messages;
  }
  return out;
}

void SimulatedCluster::FreeMemory::operator()(std::byte* memory) const {
  std::free(memory);
}

void SimulatedCluster::place(Members members) {
  STRETTO_CHECK(members.size() == size() && shared_.empty(), members.size(), " ranks are placed of ", size());
  all_->members = std::move(members);
}

void SimulatedCluster::share_memory(std::uint64_t bytes) {
  if (size() > JobMemory::kMaxRanks) {
    throw UsageError(text(size(), " ranks cannot share memory: at most ", JobMemory::kMaxRanks, " can meet there"));
  }
  for (int host = 0; host < all_->members.hosts(); ++host) {
    // Pages that are never touched cost nothing.
    std::byte* memory = shared_.emplace_back(static_cast<std::byte*>(std::calloc(bytes, 1))).get();
    if (memory == nullptr) throw std::bad_alloc();
    const std::span<const int> on = all_->members.on(host);
    const auto ring = [this, on](int place) { push(now() + network_.latency, on[static_cast<std::size_t>(place)]); };
    for (const int rank : on) {
      nodes_[static_cast<std::size_t>(rank)]->shared.emplace(std::span(memory, bytes), all_->members.place_of(rank),
                                                             static_cast<int>(on.size()), ring, true);
    }
  }
}

void SimulatedCluster::on_wake(int rank, std::function<void()> wake) {
  nodes_[static_cast<std::size_t>(rank)]->wake = std::move(wake);
}

void SimulatedCluster::wake_by(int rank, TimePoint time) {
  Node& node = *nodes_[static_cast<std::size_t>(rank)];
  time = std::max(time, now());
  if (time >= node.wakes_at) return;
  node.wakes_at = time;
  at(time, rank, [&node, time] {
    if (time != node.wakes_at) return;  // an earlier one has been asked for since: woken by it, the rank has asked anew
    node.wakes_at = TimePoint::never();
    if (node.wake) node.wake();
  });
}

void SimulatedCluster::push(TimePoint time, int rank, Message* message) {
  ++under_way_;
  enqueue({time, order_++, message, rank, -1});
}

void SimulatedCluster::enqueue(const Event& event) {
  queue_.push_back(event);
  std::push_heap(queue_.begin(), queue_.end(), Later{});
}

void SimulatedCluster::at(TimePoint time, int rank, std::function<void()> run) {
  if (free_runs_.empty()) {
    free_runs_.push_back(static_cast<std::int32_t>(runs_.size()));
    runs_.emplace_back();
  }
  const std::int32_t index = free_runs_.back();
  free_runs_.pop_back();
  runs_[static_cast<std::size_t>(index)] = std::move(run);
  enqueue({std::max(time, now()), order_++, nullptr, rank, index});
}

std::function<void()> SimulatedCluster::take_run(std::int32_t index) {
  free_runs_.push_back(index);
  return std::exchange(runs_[static_cast<std::size_t>(index)], nullptr);
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

void SimulatedCluster::free(Message* message) {
  message->world.reset();
  free_messages_.push_back(message);
}

SimulatedCluster::Port* SimulatedCluster::sender_of(const Message& message) {
  return message.world->ports[static_cast<std::size_t>(message.from)];
}

void SimulatedCluster::drop(Message* message) {
  Port* const sender = sender_of(*message);
  if (sender != nullptr && message->token != kNoToken) {
    sender->sent.push_back(message->token);
    push(now(), message->src);
  }
  free(message);
}

void SimulatedCluster::arrive(Message* message) {
  Port* const receiver = message->world->ports[static_cast<std::size_t>(message->to)];
  // Where a rank is gone, the memory that the message comes from or goes to is, too.
  if (receiver == nullptr || sender_of(*message) == nullptr) return drop(message);
  receiver->inbox.push_back(message);
}

std::uint64_t SimulatedCluster::link(int src, int dst) const {
  return static_cast<std::uint64_t>(src) * nodes_.size() + static_cast<std::uint64_t>(dst);
}

Duration SimulatedCluster::drawn_below(Duration limit) {
  if (limit <= Duration::zero()) return Duration::zero();
  return Duration(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(limit.count()) + 1)));
}

void SimulatedCluster::post(Message* message) {
  Node& sender = *nodes_[static_cast<std::size_t>(message->src)];
  double factor = 1;
  if (!link_factor_.empty()) {
    const auto slowed = link_factor_.find(link(message->src, message->dst));
    if (slowed != link_factor_.end()) factor = slowed->second;
  }
  const double bytes = static_cast<double>(sizeof(Envelope) + message->head.size()) +
                       network_.body_scale * static_cast<double>(message->envelope.body_bytes);
  const Duration jitter = drawn_below(network_.jitter);
  const double transfer = factor * bytes / network_.bytes_per_second;
  const double latency = factor * seconds(network_.latency + jitter);
  sender.busy_until = std::max(sender.busy_until, now()) + network_.overhead;
  message->come = 0;
  message->pieces = 1;
  Node::Arrival& last = sender.last_arrival(message->dst);
  ++last.messages;
  message->queued = network_.shared_card && bytes > NetworkOptions::kPacketBytes;
  if (message->queued || last.reaching > 0) {
    message->transfer = from_seconds(transfer);
    message->reaching = true;
    ++last.reaching;
    TimePoint leaves = sender.busy_until;
    if (message->queued && !shares_) {
      leaves = std::max(leaves, sender.sending_until);
      sender.sending_until = leaves + message->transfer;
    }
    last.reached = std::max(leaves + from_seconds(latency), last.reached + Duration(1));
    return push(last.reached, message->dst, message);
  }
  last.time = std::max(sender.busy_until + from_seconds(latency + transfer), last.time + Duration(1));
  if (network_.pieces > 1 && message->envelope.body_bytes > 1) {
    message->pieces += static_cast<int>(random_.below(static_cast<std::uint64_t>(network_.pieces)));
  }
  push(last.time, message->dst, message);
  for (int piece = 1; piece < message->pieces; ++piece) {
    last.time =
        last.time + Duration(1) + from_seconds(factor * seconds(drawn_below(2 * (network_.latency + network_.jitter))));
    push(last.time, message->dst, message);
  }
}

void SimulatedCluster::reach(Message* message) {
  message->reaching = false;
  if (shares_) {
    auto& there = nodes_[static_cast<std::size_t>(message->src)]->last_arrival(message->dst).there;
    ++under_way_;
    there.push_back(message);
    if (there.size() == 1) pass_on(message->src, message->dst);
    return;
  }
  Node::Arrival& last = nodes_[static_cast<std::size_t>(message->src)]->last_arrival(message->dst);
  --last.reaching;
  TimePoint received = now() + message->transfer;
  if (message->queued) {
    TimePoint& card = nodes_[static_cast<std::size_t>(message->dst)]->receiving_until;
    received = std::max(received, card + message->transfer);
    card = received;
  }
  last.time = std::max(received, last.time + Duration(1));
  push(last.time, message->dst, message);
}

void SimulatedCluster::pass_on(int src, int dst) {
  const std::vector<Message*>& there = nodes_[static_cast<std::size_t>(src)]->last_arrival(dst).there;
  while (!there.empty() && !there.front()->queued) pass(src, dst, now() + there.front()->transfer);
  if (there.empty()) return;
  const double weight = network_.unevenness > 0 ? random_.log_normal(1, network_.unevenness) : 1;
  const auto number = static_cast<std::size_t>(shares_->begin(now(), src, dst, there.front()->transfer, weight));
  transfers_.resize(std::max(transfers_.size(), number + 1));
  transfers_[number] = there.front();
}

void SimulatedCluster::pass(int src, int dst, TimePoint received) {
  Node::Arrival& last = nodes_[static_cast<std::size_t>(src)]->last_arrival(dst);
  Message* message = last.there.front();
  last.there.erase(last.there.begin());
  --last.reaching;
  --under_way_;
  last.time = std::max(received, last.time + Duration(1));
  push(last.time, dst, message);
}

void SimulatedCluster::end_transfer() {
  clock_.advance_to(std::max(shares_->earliest(), now()));
  ++happened_;
  const int number = shares_->first();
  const Message& message = *std::exchange(transfers_[static_cast<std::size_t>(number)], nullptr);
  shares_->end(now(), number);
  pass(message.src, message.dst, now());
  pass_on(message.src, message.dst);
}

/// Of a rank that has crashed.
void SimulatedCluster::give_up_transfers(int src) {
  for (std::size_t number = 0; number < transfers_.size(); ++number) {
    if (transfers_[number] == nullptr || transfers_[number]->src != src) continue;
    transfers_[number] = nullptr;
    shares_->end(now(), static_cast<int>(number));
  }
  under_way_ -= nodes_[static_cast<std::size_t>(src)]->drop_there();
}

bool SimulatedCluster::run_next() {
  if (shares_ && !shares_->empty() && (queue_.empty() || shares_->earliest() <= queue_.front().time)) {
    end_transfer();
    return true;
  }
  if (queue_.empty()) return false;
  std::pop_heap(queue_.begin(), queue_.end(), Later{});
  Event event = queue_.back();
  queue_.pop_back();
  clock_.advance_to(std::max(event.time, now()));
  Node& node = *nodes_[static_cast<std::size_t>(event.rank)];
  if (node.crashed) {
    if (event.run < 0) --under_way_;
    if (event.run >= 0) take_run(event.run);
    if (event.message != nullptr && event.message->token != kNoToken && event.message->last_piece()) {
      if (Port* const sender = sender_of(*event.message)) sender->sent.push_back(event.message->token);
      wake(event.message->src);
    }
    if (event.message != nullptr) ++event.message->come;
    return true;
  }
  if (node.stopped_until > now()) {
    event.time = node.stopped_until;
    enqueue(event);  // keeps its place among those that wait
    return true;
  }
  ++happened_;
  if (event.run >= 0) {
    take_run(event.run)();
    return true;
  }
  --under_way_;
  if (event.message != nullptr && event.message->reaching) {
    reach(event.message);
    return true;
  }
  if (event.message != nullptr) arrive(event.message);
  wake(event.rank);
  return true;
}

void SimulatedCluster::wake(int rank) {
  Node& node = *nodes_[static_cast<std::size_t>(rank)];
  if (node.wake) node.wake();
}

void SimulatedCluster::slow_link(int src, int dst, double factor) {
  link_factor_[link(src, dst)] = factor;
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
  if (shares_) give_up_transfers(rank);
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
