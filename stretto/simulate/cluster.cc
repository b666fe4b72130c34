#include "stretto/simulate/cluster.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "stretto/transport/job_memory.h"

namespace stretto {

struct SimulatedCluster::Message {
  int src = 0;
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

class SimulatedCluster::Node final : public Transport {
 public:
  Node(SimulatedCluster& cluster, int rank) : cluster_(cluster), rank_(rank), bell_(words_, false) {}

  int rank() const override { return rank_; }
  int size() const override { return cluster_.size(); }
  const char* name() const override { return "simulated"; }
  bool carries_payload() const override { return cluster_.network_.payload; }
  Doorbell& doorbell() override { return bell_; }
  const Members& members() const override { return cluster_.members_; }

  void send(int peer, Envelope envelope, std::span<const std::byte> head, std::span<const std::byte> body,
            SendToken token) override {
    STRETTO_CHECK(peer != rank_, "rank ", rank_, " sends to itself");
    STRETTO_CHECK(head.size() <= kMaxHeadBytes, "head of ", head.size(), " bytes");
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
    if (static_cast<std::int64_t>(body.size()) <= cluster_.network_.eager_bytes) complete(*message, body);
    cluster_.post(message);
  }

  TimePoint poll_by() const override { return sent.empty() ? TimePoint::never() : TimePoint{}; }

  bool poll(MessageSink& sink) override {
    bool any = false;
    while (!losses.empty()) {
      const auto [peer, reason] = losses.back();
      losses.pop_back();
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
      if (deliver(*message, sink)) cluster_.free_messages_.push_back(message);
    }
    arriving_.clear();
    for (int src : to_wake_) cluster_.push(cluster_.now(), src);
    to_wake_.clear();
    return any;
  }

  /// Of the messages to one peer: none overtakes another.
  struct Arrival {
    int peer;
    TimePoint time;                 // when the last one arrives
    TimePoint reached;              // when the last one that goes through the receiver's card comes there
    int reaching = 0;               // so many are on their way to it, or there
    std::vector<Message*> there{};  // at fair cards, in order; the first is under way
  };
  Arrival& last_arrival(int peer) {
    const auto at = std::ranges::lower_bound(arrivals_, peer, {}, &Arrival::peer);
    if (at != arrivals_.end() && at->peer == peer) return *at;
    return *arrivals_.insert(at, {peer, TimePoint(), TimePoint()});
  }

  /// Forgets the messages at fair cards, and returns how many there were.
  std::int64_t drop_there() {
    std::int64_t dropped = 0;
    for (Arrival& arrival : arrivals_) {
      dropped += static_cast<std::int64_t>(arrival.there.size());
      arrival.there.clear();
    }
    return dropped;
  }

  std::vector<Message*> inbox;
  std::vector<SendToken> sent;
  std::vector<std::pair<int, Error>> losses;
  std::function<void()> wake;
  TimePoint wakes_at = TimePoint::never();  // the earliest of wake_by() under way
  std::optional<SharedArena> shared;
  TimePoint stopped_until;
  TimePoint busy_until;
  TimePoint sending_until, receiving_until;  // its card, if it is shared
  bool crashed = false;

 private:
  SharedArena* arena() override { return shared ? &*shared : nullptr; }

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
    if (message.come == 0) message.target = sink.begin(message.src, message.envelope, message.head);
    const std::uint64_t bytes = message.envelope.body_bytes;
    const auto cut = [&](int piece) {
      return bytes * static_cast<std::uint64_t>(piece) / static_cast<std::uint64_t>(message.pieces);
    };
    const std::uint64_t from = cut(message.come), until = cut(message.come + 1);
    if (message.target != nullptr && message.body != nullptr && until > from) {
      std::memcpy(message.target + from, message.body + from, until - from);
    }
    if (++message.come < message.pieces) return false;
    sink.end(message.src);
    if (message.token == kNoToken) return true;
    Node& sender = *cluster_.nodes_[static_cast<std::size_t>(message.src)];
    sender.sent.push_back(message.token);
    if (!sender.crashed) to_wake_.push_back(message.src);
    return true;
  }

  SimulatedCluster& cluster_;
  const int rank_;
  std::vector<Arrival> arrivals_;  // of peers that have been sent something, sorted: most ranks talk to few
  DoorbellWords words_;
  Doorbell bell_;
  std::vector<Message*> arriving_;
  std::vector<SendToken> completing_;
  std::vector<int> to_wake_;
};

SimulatedCluster::SimulatedCluster(int ranks, NetworkOptions network, std::uint64_t seed)
    : network_(network), random_(seed, 0x636c7573746572), members_(ranks) {
  STRETTO_CHECK(!network_.shared_card || network_.pieces == 1, "messages in pieces through a shared card");
  if (network_.shared_card && network_.fair_shares) shares_.emplace(ranks);
  for (int rank = 0; rank < ranks; ++rank) nodes_.push_back(std::make_unique<Node>(*this, rank));
}

SimulatedCluster::~SimulatedCluster() = default;

Transport& SimulatedCluster::transport(int rank) {
  return *nodes_[static_cast<std::size_t>(rank)];
}

void SimulatedCluster::FreeMemory::operator()(std::byte* memory) const {
  std::free(memory);
}

void SimulatedCluster::place(Members members) {
  STRETTO_CHECK(members.size() == size() && shared_.empty(), members.size(), " ranks are placed of ", size());
  members_ = std::move(members);
}

void SimulatedCluster::share_memory(std::uint64_t bytes) {
  if (size() > JobMemory::kMaxRanks) {
    throw UsageError(text(size(), " ranks cannot share memory: at most ", JobMemory::kMaxRanks, " can meet there"));
  }
  for (int host = 0; host < members_.hosts(); ++host) {
    // Pages that are never touched cost nothing.
    std::byte* memory = shared_.emplace_back(static_cast<std::byte*>(std::calloc(bytes, 1))).get();
    if (memory == nullptr) throw std::bad_alloc();
    const std::span<const int> on = members_.on(host);
    const auto ring = [this, on](int place) { push(now() + network_.latency, on[static_cast<std::size_t>(place)]); };
    for (const int rank : on) {
      nodes_[static_cast<std::size_t>(rank)]->shared.emplace(std::span(memory, bytes), members_.place_of(rank),
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
      nodes_[static_cast<std::size_t>(event.message->src)]->sent.push_back(event.message->token);
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
  if (event.message != nullptr) node.inbox.push_back(event.message);
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
