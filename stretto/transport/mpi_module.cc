// The part of Stretto that is linked with MPI; loaded by mpi.cc. Nothing else includes mpi.h.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <thread>

#include "stretto/base/mutex.h"
#include "stretto/transport/mpi.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

/// Of messages between two ranks: envelope, head and, if small, body; large bodies; texts at the end.
enum Tag : int { kPacket = 1, kBody = 2, kText = 3 };

constexpr std::uint64_t kPiece = 1u << 30;  // MPI counts in int
constexpr int kMaxPacketsAPoll = 64;        // so that poll() returns
constexpr int kLooksBeforeSleep = 20;       // for a number of all ranks
constexpr Duration kSoonest = 20us;
constexpr Duration kLatest = 1ms;
/// Over TCP MPI moves a large body only when it is called, and no more than a buffer of the socket holds (about 128
/// KiB).
constexpr Duration kUnderWay = 300us;

/// Serializes all calls of MPI (MPI_THREAD_SERIALIZED): those of the driving thread and of threads that use a counter.
class Serial {
 public:
  template <class Call>
  decltype(auto) operator()(Call&& call) {
    MutexLock lock(mutex_);
    return call();
  }

 private:
  Mutex mutex_;
};

/// Requests in flight, each with something to remember.
template <class Memo>
class Requests {
 public:
  bool empty() const { return requests_.empty(); }

  void add(MPI_Request request, Memo memo) {
    requests_.push_back(request);
    memos_.push_back(std::move(memo));
  }

  /// Takes out the requests that are complete and returns their entries, in no order.
  std::vector<Memo> take_complete(Serial& serial) {
    std::vector<Memo> out;
    if (requests_.empty()) return out;
    indices_.resize(requests_.size());
    int count = 0;
    serial([&] {
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, indices_.data(), MPI_STATUSES_IGNORE);
    });
    std::sort(indices_.begin(), indices_.begin() + count);
    for (int i = 0; i < count; ++i) out.push_back(std::move(memos_[static_cast<std::size_t>(indices_[i])]));
    for (int i = count; i-- > 0;) {  // from behind, so that the last fills the gap
      const auto at = static_cast<std::size_t>(indices_[i]);
      requests_[at] = requests_.back();
      memos_[at] = std::move(memos_.back());
      requests_.pop_back();
      memos_.pop_back();
    }
    return out;
  }

 private:
  std::vector<MPI_Request> requests_;
  std::vector<Memo> memos_;
  std::vector<int> indices_;
};

/// Calls `visit(at, bytes)` for pieces that MPI can count.
template <class Visit>
void for_each_piece(std::uint64_t bytes, Visit&& visit) {
  for (std::uint64_t at = 0; at < bytes; at += kPiece) visit(at, static_cast<int>(std::min(kPiece, bytes - at)));
}

/// Takes everything in and throws it away.
class DiscardingSink final : public MessageSink {
 public:
  std::byte* begin(int, const Envelope&, std::span<const std::byte>) override { return nullptr; }
  void end(int) override {}
  void sent(SendToken) override {}
  void lost(int, const Error&) override {}
};

/// Collective. A host is named by its lowest rank.
Members members_of(MPI_Comm comm) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  MPI_Comm here = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
  int lowest = rank;
  MPI_Bcast(&lowest, 1, MPI_INT, 0, here);
  MPI_Comm_free(&here);
  std::vector<int> host_of(static_cast<std::size_t>(ranks));
  MPI_Allgather(&lowest, 1, MPI_INT, host_of.data(), 1, MPI_INT, comm);
  return Members(host_of);
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm comm, Serial& serial)
      : comm_(comm), serial_(serial), members_(members_of(comm)), doorbell_(doorbell_words_, false) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    incoming_.resize(static_cast<std::size_t>(size_));
    last_moved_ = last_polled_ = clock_.now();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const Members& members() const override { return members_; }
  Doorbell& doorbell() override { return doorbell_; }
  const char* name() const override { return "mpi"; }

  void send(int peer, Envelope envelope, std::span<const std::byte> head, std::span<const std::byte> body,
            SendToken token) override;
  bool poll(MessageSink& sink) override;
  TimePoint poll_by() const override;

  /// Throws incoming messages away until no rank has anything left to send. Collective; the last use of the transport.
  void drain();

 private:
  using Packet = std::vector<std::byte>;
  struct Send {
    SendToken token;
    int open = 0;  // requests not complete
    Packet packet;
  };
  struct Incoming {
    int open_pieces = 0;         // > 0: between begin() and end()
    Packet nowhere;              // takes a large body that is thrown away
    std::deque<Packet> waiting;  // came while a body was on its way
  };

  bool take_packet(MessageSink& sink);
  void deliver(int peer, const Packet& packet, MessageSink& sink);
  void deliver_waiting(int peer, MessageSink& sink);
  bool idle() const { return sends_.empty() && bodies_.empty() && sent_.empty(); }

  const MPI_Comm comm_;
  Serial& serial_;
  const Members members_;
  const SteadyClock clock_;
  DoorbellWords doorbell_words_;
  Doorbell doorbell_;
  int rank_ = 0;
  int size_ = 1;
  Requests<std::shared_ptr<Send>> sends_;  // shared by the requests of one message
  std::vector<SendToken> sent_, reporting_;
  std::vector<Incoming> incoming_;  // per peer
  Requests<int> bodies_;            // the peer whose body it is
  TimePoint last_moved_, last_polled_;
};

void MpiTransport::send(int peer, Envelope envelope, std::span<const std::byte> head, std::span<const std::byte> body,
                        SendToken token) {
  STRETTO_CHECK(peer >= 0 && peer < size_ && peer != rank_, "rank ", rank_, " sends to ", peer);
  STRETTO_CHECK(head.size() <= kMaxHeadBytes, "head of ", head.size(), " bytes");
  STRETTO_CHECK(body.data() != nullptr || body.empty(), "body of ", body.size(), " bytes without address");
  envelope.head_bytes = static_cast<std::uint32_t>(head.size());
  envelope.body_bytes = body.size();
  const bool with_body = body.size() <= kMaxInlineBody;
  auto send = std::make_shared<Send>();
  send->token = with_body ? kNoToken : token;
  send->packet.resize(sizeof(Envelope) + head.size() + (with_body ? body.size() : 0));
  std::memcpy(send->packet.data(), &envelope, sizeof(Envelope));
  std::copy(head.begin(), head.end(), send->packet.begin() + sizeof(Envelope));
  if (with_body) {
    std::copy(body.begin(), body.end(),
              send->packet.begin() + static_cast<std::ptrdiff_t>(sizeof(Envelope) + head.size()));
    if (token != kNoToken) sent_.push_back(token);
  }
  const auto post = [&](const std::byte* from, int bytes, Tag tag) {
    MPI_Request request = MPI_REQUEST_NULL;
    serial_([&] { MPI_Isend(from, bytes, MPI_BYTE, peer, tag, comm_, &request); });
    ++send->open;
    sends_.add(request, send);
  };
  post(send->packet.data(), static_cast<int>(send->packet.size()), kPacket);
  if (!with_body) {
    for_each_piece(body.size(), [&](std::uint64_t at, int bytes) { post(body.data() + at, bytes, kBody); });
  }
  last_moved_ = clock_.now();  // an answer may come soon
}

bool MpiTransport::poll(MessageSink& sink) {
  for (const auto& send : sends_.take_complete(serial_)) {
    if (--send->open == 0 && send->token != kNoToken) sent_.push_back(send->token);
  }
  bool moved = !sent_.empty();
  reporting_.swap(sent_);  // a callback may send
  for (const SendToken token : reporting_) sink.sent(token);
  reporting_.clear();

  for (const int peer : bodies_.take_complete(serial_)) {
    moved = true;
    if (--incoming_[static_cast<std::size_t>(peer)].open_pieces > 0) continue;
    incoming_[static_cast<std::size_t>(peer)].nowhere = {};
    sink.end(peer);
    deliver_waiting(peer, sink);
  }
  for (int i = 0; i < kMaxPacketsAPoll && take_packet(sink); ++i) moved = true;
  last_polled_ = clock_.now();
  if (moved) last_moved_ = last_polled_;
  return moved;
}

TimePoint MpiTransport::poll_by() const {
  if (!sent_.empty()) return {};
  return last_polled_ + std::clamp<Duration>((last_polled_ - last_moved_) / 8, kSoonest, idle() ? kLatest : kUnderWay);
}

/// Takes the next packet of any peer, if there is one.
bool MpiTransport::take_packet(MessageSink& sink) {
  int there = 0;
  Packet packet;
  MPI_Status status;
  serial_([&] {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Improbe(MPI_ANY_SOURCE, kPacket, comm_, &there, &message, &status);
    if (there == 0) return;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    packet.resize(static_cast<std::size_t>(bytes));
    MPI_Mrecv(packet.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  });
  if (there == 0) return false;
  Incoming& in = incoming_[static_cast<std::size_t>(status.MPI_SOURCE)];
  in.waiting.push_back(std::move(packet));
  if (in.open_pieces == 0) deliver_waiting(status.MPI_SOURCE, sink);
  return true;
}

void MpiTransport::deliver_waiting(int peer, MessageSink& sink) {
  Incoming& in = incoming_[static_cast<std::size_t>(peer)];
  while (in.open_pieces == 0 && !in.waiting.empty()) {
    const Packet packet = std::move(in.waiting.front());
    in.waiting.pop_front();
    deliver(peer, packet, sink);
  }
}

void MpiTransport::deliver(int peer, const Packet& packet, MessageSink& sink) {
  Envelope envelope;
  if (!read_packet(packet, envelope)) {
    sink.lost(peer, {Errc::bad_input, text("rank ", peer, " is lost: it has sent what is no message"), peer});
    return;
  }
  const std::byte* head = packet.data() + sizeof(Envelope);
  std::byte* to = sink.begin(peer, envelope, {head, envelope.head_bytes});
  if (envelope.body_bytes <= kMaxInlineBody) {
    if (to != nullptr) std::memcpy(to, head + envelope.head_bytes, envelope.body_bytes);
    sink.end(peer);
    return;
  }
  Incoming& in = incoming_[static_cast<std::size_t>(peer)];
  if (to == nullptr) {
    in.nowhere.resize(envelope.body_bytes);
    to = in.nowhere.data();
  }
  for_each_piece(envelope.body_bytes, [&](std::uint64_t at, int bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    serial_([&] { MPI_Irecv(to + at, bytes, MPI_BYTE, peer, kBody, comm_, &request); });
    ++in.open_pieces;
    bodies_.add(request, peer);
  });
}

void MpiTransport::drain() {
  DiscardingSink sink;
  const auto poll_until = [&](auto&& done) {
    while (!done()) {
      const std::uint32_t seen = doorbell_.rings();
      if (!poll(sink)) doorbell_.sleep(seen, Doorbell::Sleeper::application, poll_by() - clock_.now());
    }
  };
  poll_until([&] { return idle(); });
  MPI_Request barrier = MPI_REQUEST_NULL;
  serial_([&] { MPI_Ibarrier(comm_, &barrier); });
  poll_until([&] {
    int done = 0;
    serial_([&] { MPI_Test(&barrier, &done, MPI_STATUS_IGNORE); });
    return done != 0 && idle();
  });
}

/// A number in a window on rank `home`.
class WindowCounter final : public SharedCounter {
 public:
  WindowCounter(MPI_Win window, int home, int index, Serial& serial)
      : window_(window), home_(home), index_(index), serial_(serial) {}

  std::uint64_t fetch_add(std::uint64_t amount) override {
    std::uint64_t before = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    serial_([&] {
      MPI_Rget_accumulate(&amount, 1, MPI_UINT64_T, &before, 1, MPI_UINT64_T, home_, index_, 1, MPI_UINT64_T, MPI_SUM,
                          window_, &request);
    });
    // A flush of the window would spin, and several ranks that do so on few cores keep from running who is to answer.
    for (int looks = 0;; ++looks) {
      int done = 0;
      serial_([&] { MPI_Test(&request, &done, MPI_STATUS_IGNORE); });
      if (done != 0) return before;
      if (looks < kLooksBeforeSleep) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kSoonest);
      }
    }
  }

 private:
  const MPI_Win window_;
  const int home_, index_;
  Serial& serial_;
};

class WorldJob final : public MpiJob {
 public:
  WorldJob() {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    transport_.emplace(comm_, serial_);
  }

  /// Makes the counters, on all ranks at once. False where this MPI offers no window over the network that they share.
  bool make_counters() {
    const int home =
        transport_->size() - 1;  // a server, where ranks do nothing else: those look after MPI all the time
    const MPI_Aint bytes = transport_->rank() == home ? kNumCounters * sizeof(std::uint64_t) : 0;
    void* numbers = nullptr;
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    if (MPI_Win_allocate(bytes, sizeof(std::uint64_t), MPI_INFO_NULL, comm_, &numbers, &window_) != MPI_SUCCESS) {
      return false;
    }
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_ARE_FATAL);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
    if (bytes > 0) std::memset(numbers, 0, static_cast<std::size_t>(bytes));
    MPI_Win_sync(window_);
    MPI_Barrier(comm_);
    for (int i = 0; i < kNumCounters; ++i) counters_.emplace_back(window_, home, i, serial_);
    return true;
  }

  ~WorldJob() override {
    drain();
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }

  Transport& transport() override { return *transport_; }
  SharedCounter& counter(int index) override { return counters_.at(static_cast<std::size_t>(index)); }

  std::vector<std::string> gather(const std::string& text) override {
    drain();
    std::vector<std::string> out(static_cast<std::size_t>(transport_->size()));
    std::uint64_t bytes = text.size();
    if (transport_->rank() != 0) {
      MPI_Send(&bytes, 1, MPI_UINT64_T, 0, kText, comm_);
      for_each_piece(bytes, [&](auto at, int n) { MPI_Send(text.data() + at, n, MPI_BYTE, 0, kText, comm_); });
      return out;
    }
    out[0] = text;
    for (int peer = 1; peer < transport_->size(); ++peer) {
      std::string& in = out[static_cast<std::size_t>(peer)];
      MPI_Recv(&bytes, 1, MPI_UINT64_T, peer, kText, comm_, MPI_STATUS_IGNORE);
      in.resize(bytes);
      for_each_piece(
          bytes, [&](auto at, int n) { MPI_Recv(in.data() + at, n, MPI_BYTE, peer, kText, comm_, MPI_STATUS_IGNORE); });
    }
    return out;
  }

  [[noreturn]] void abort(int status) override {
    MPI_Abort(MPI_COMM_WORLD, status);
    std::abort();
  }

 private:
  void drain() {
    if (!drained_) transport_->drain();
    drained_ = true;
  }

  Serial serial_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  std::optional<MpiTransport> transport_;
  std::deque<WindowCounter> counters_;
  bool drained_ = false;
};

}  // namespace
}  // namespace stretto

extern "C" __attribute__((visibility("default"))) stretto::MpiJob* stretto_start_mpi_job(stretto::Error* error) {
  int flag = 0;
  MPI_Initialized(&flag);
  if (flag != 0) {
    *error = {stretto::Errc::unavailable, "this process has joined its MPI job before; it can do so once"};
    return nullptr;
  }
  int threads = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads);
  if (threads < MPI_THREAD_SERIALIZED) {
    *error = {stretto::Errc::unavailable, "this MPI lets no second thread call it (MPI_THREAD_SERIALIZED)"};
    MPI_Finalize();
    return nullptr;
  }
  auto job = std::make_unique<stretto::WorldJob>();
  if (!job->make_counters()) {
    *error = {stretto::Errc::unavailable,
              "this MPI has no one-sided communication (MPI_Win_allocate) over the network between its ranks; Open MPI "
              "has it over TCP with `mpirun --mca osc ^ucx`"};
    static_cast<void>(job.release());  // the others may have one, and would be waited for
    return nullptr;
  }
  return job.release();
}
