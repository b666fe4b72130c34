#include "stretto/transport/hosts/tcp.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <system_error>
#include <utility>

#include "stretto/base/mutex.h"
#include "stretto/transport/hosts/kernel_state.h"
#include "stretto/transport/hosts/leaving.h"
#include "stretto/transport/hosts/message_stream.h"

namespace stretto {
namespace {

using asio::ip::tcp;

constexpr std::size_t kBuffer = 64 << 10;           // of a connection, for what is no body under way
constexpr std::size_t kBehindBody = 4 << 10;        // of it that is read into behind a body: most is the next one's
constexpr std::uint64_t kEnoughOfBody = 128 << 10;  // of a body, before its reader is woken
constexpr std::uint64_t kMostAtOnce = 4 << 20;      // read of a connection before the others are looked at
constexpr int kPiecesAtOnce = 48;                   // written by one system call
constexpr std::uint64_t kLastWord = 1;              // as the note of a goodbye: no other connection has messages

Error lost(int rank, const std::string& how) {
  return {Errc::lost_peer, text("rank ", rank, " is lost: ", how), rank};
}

}  // namespace

/// What the network's thread says of a connection.
struct TcpCarrier::Waits {
  std::atomic<bool> can_read{true}, can_write{true};
};

struct TcpCarrier::Connection {
  Connection(int from, tcp::socket open) : peer(from), socket(std::move(open)), buffer(kBuffer), in{.peer = from} {}

  const int peer;
  tcp::socket socket;
  const std::shared_ptr<Waits> waits = std::make_shared<Waits>();
  bool closed = false;

  std::vector<std::byte> buffer;
  std::size_t begin = 0, end = 0;  // of what is in it
  IncomingMessages in;
  int enough = 1;  // bytes with which the kernel calls it readable
};

struct TcpCarrier::Peer {
  std::deque<OutgoingMessage> waiting;  // in order; the first may be half written
  Connection* out = nullptr;            // where this rank sends
  bool connecting = false;
  bool gone = false;  // has left or is lost: sends go nowhere
  bool told = false;  // and the sink knows
  /// The sink knows that it is lost. It may be there all the same, behind a link that is cut: its connections stay,
  /// unread, since the end of one would tell it that this rank has ended.
  bool lost = false;
};

/// Thread-safe. It rings whenever there is something in it.
class TcpCarrier::Inbox {
 public:
  explicit Inbox(const Doorbell& doorbell) : doorbell_(doorbell) {}

  void arrived(int peer, tcp::socket socket) {
    const MutexLock lock(mutex_);
    if (closed_) return;
    arrived_.emplace_back(peer, std::move(socket));
    there_.store(true, std::memory_order_release);
    doorbell_.ring();
  }
  void lost(int peer, Error why) {
    const MutexLock lock(mutex_);
    if (closed_) return;
    lost_.emplace_back(peer, std::move(why));
    there_.store(true, std::memory_order_release);
    doorbell_.ring();
  }
  /// A socket can be read, or written.
  void ready(std::atomic<bool>& can) {
    const MutexLock lock(mutex_);
    if (closed_) return;
    can.store(true, std::memory_order_release);
    there_.store(true, std::memory_order_release);
    doorbell_.ring();
  }
  bool there() { return there_.load(std::memory_order_relaxed) && there_.exchange(false, std::memory_order_acquire); }
  void look_again() { there_.store(true, std::memory_order_release); }
  bool has_something() const { return there_.load(std::memory_order_relaxed); }
  std::vector<std::pair<int, tcp::socket>> take_arrived() {
    const MutexLock lock(mutex_);
    return std::exchange(arrived_, {});
  }
  std::vector<std::pair<int, Error>> take_lost() {
    const MutexLock lock(mutex_);
    return std::exchange(lost_, {});
  }
  bool is_closed() {
    const MutexLock lock(mutex_);
    return closed_;
  }
  /// Nothing comes any more, and nobody rings.
  void close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    arrived_.clear();
  }

 private:
  Doorbell doorbell_;
  std::atomic<bool> there_{false};
  Mutex mutex_;
  std::vector<std::pair<int, tcp::socket>> arrived_ GUARDED_BY(mutex_);
  std::vector<std::pair<int, Error>> lost_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

TcpCarrier::TcpCarrier(NetworkThread& network, Door& door, const Hello& as, const Token& token,
                       std::vector<tcp::endpoint> addresses, const Doorbell& doorbell)
    : network_(network),
      door_(door),
      as_(as),
      token_(token),
      addresses_(std::move(addresses)),
      inbox_(std::make_shared<Inbox>(doorbell)) {
  for (std::size_t rank = 0; rank < addresses_.size(); ++rank) peers_.push_back(std::make_unique<Peer>());
  door_.receive(Hello::Use::messages, [inbox = inbox_](const Hello& hello, tcp::socket socket) {
    inbox->arrived(hello.from, std::move(socket));
  });
}

TcpCarrier::~TcpCarrier() {
  door_.receive(Hello::Use::messages, nullptr);
  inbox_->close();
  asio::error_code ignored;
  for (const auto& connection : connections_) connection->socket.close(ignored);
  network_.run([] {});  // what waited for them has heard that they are closed
}

void TcpCarrier::lose(int peer, const Error& why) {
  inbox_->lost(peer, why);
}

void TcpCarrier::send(int to, const Envelope& envelope, std::span<const std::byte> head,
                      std::span<const std::byte> body, SendToken token) {
  Peer& peer = peer_of(to);
  if (peer.gone) {
    if (token != kNoToken) sent_.push_back(token);
    return;
  }
  OutgoingMessage message{.envelope = envelope, .head = head, .body = body, .token = token};
  peer.waiting.push_back(std::move(message));
  if (peer.waiting.size() == 1 && peer.out != nullptr) write(peer);
  if (!peer.waiting.empty()) peer.waiting.back().keep_head();
  if (peer.out == nullptr && !std::exchange(peer.connecting, true)) connect(to);
}

/// Writes what waits for the peer, as far as the kernel has room. Returns whether anything was written.
bool TcpCarrier::write(Peer& peer) {
  Connection& out = *peer.out;
  bool moved = false;
  thread_local std::vector<iovec> pieces;
  while (!peer.waiting.empty() && !out.closed) {
    pieces.clear();
    for (const OutgoingMessage& message : peer.waiting) {
      if (std::ssize(pieces) >= kPiecesAtOnce) break;
      message.add_to(pieces);
    }
    const msghdr header{.msg_iov = pieces.data(), .msg_iovlen = pieces.size()};
    const ssize_t bytes = ::sendmsg(out.socket.native_handle(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) wait_to_write(out);
      return moved;  // else the end of the connection says so
    }
    moved = true;
    auto left = static_cast<std::uint64_t>(bytes);
    while (left > 0) {
      OutgoingMessage& front = peer.waiting.front();
      const std::uint64_t of_it = std::min(left, front.bytes() - front.written);
      front.written += of_it;
      left -= of_it;
      if (front.written < front.bytes()) break;
      if (front.token != kNoToken) sent_.push_back(front.token);
      peer.waiting.pop_front();
    }
  }
  return moved;
}

void TcpCarrier::connect(int to) {
  Hello hello = as_;
  hello.use = Hello::Use::messages;
  hello.to = to;
  asio::co_spawn(
      network_.io(),
      [&io = network_.io(), inbox = inbox_, at = addresses_[static_cast<std::size_t>(to)], hello, token = token_] {
        return reach(io, inbox, at, hello, token);
      },
      asio::detached);
}

asio::awaitable<void> TcpCarrier::reach(asio::io_context& io, std::shared_ptr<Inbox> inbox, tcp::endpoint at,
                                        Hello hello, Token token) {
  tcp::socket socket(io);
  const std::function<bool()> ended = [inbox] { return inbox->is_closed(); };  // GCC 12 ends a temporary twice here
  const asio::error_code error = co_await say_hello_on_a_way(socket, at, hello, token, ended);
  if (!error) co_return inbox->arrived(hello.to, std::move(socket));
  const std::string how = text(at.address().to_string(), ':', at.port(), ": ", error.message());
  inbox->lost(hello.to, stretto::lost(hello.to, how));
}

/// Takes a connection that has come, or that this rank has made.
void TcpCarrier::adopt(int from, tcp::socket socket) {
  Peer& peer = peer_of(from);
  if (peer.told && !peer.lost) return;
  asio::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(tcp::no_delay(true), ignored);
  connections_.push_back(std::make_unique<Connection>(from, std::move(socket)));
  if (peer.out != nullptr || peer.gone) return;
  peer.out = connections_.back().get();
  write(peer);
}

void TcpCarrier::wait_to_read(Connection& connection) {
  const std::uint64_t wanted = connection.in.in_body ? std::min(connection.in.body_left, kEnoughOfBody) : 1;
  const int enough = static_cast<int>(std::max<std::uint64_t>(wanted, 1));
  if (std::exchange(connection.enough, enough) != enough) {
    ::setsockopt(connection.socket.native_handle(), SOL_SOCKET, SO_RCVLOWAT, &enough, sizeof enough);
  }
  connection.socket.async_wait(tcp::socket::wait_read, [inbox = inbox_, waits = connection.waits](asio::error_code e) {
    if (e != asio::error::operation_aborted) inbox->ready(waits->can_read);
  });
}

void TcpCarrier::wait_to_write(Connection& connection) {
  connection.waits->can_write.store(false, std::memory_order_relaxed);
  connection.socket.async_wait(tcp::socket::wait_write, [inbox = inbox_, waits = connection.waits](asio::error_code e) {
    if (e != asio::error::operation_aborted) inbox->ready(waits->can_write);
  });
}

TimePoint TcpCarrier::poll_by() const {
  if (!sent_.empty() || inbox_->has_something()) return {};
  return watch_ ? watch_->look_by() : TimePoint::never();
}

/// Whether messages for a peer leave, as far as the kernel knows, or there are none.
bool TcpCarrier::works(int rank) const {
  const Peer& peer = *peers_[static_cast<std::size_t>(rank)];
  if (peer.out == nullptr) return !peer.lost && peer.waiting.empty();
  return !repeats(peer.out->socket.native_handle());
}

bool TcpCarrier::poll(MessageSink& sink) {
  bool moved = false;
  if (watch_) watch_->look([this](int peer) { return works(peer); });
  if (inbox_->there()) {
    for (auto& [from, socket] : inbox_->take_arrived()) adopt(from, std::move(socket));
    for (std::size_t i = 0; i < connections_.size(); ++i) {  // a sink that sends may add to them, but not here
      Connection& connection = *connections_[i];
      Peer& peer = peer_of(connection.peer);
      if (peer.out == &connection && connection.waits->can_write.load(std::memory_order_acquire)) moved |= write(peer);
      if (connection.waits->can_read.exchange(false, std::memory_order_acquire)) moved |= read(connection, sink);
    }
    for (const auto& [peer, why] : inbox_->take_lost()) {
      for (const auto& connection : connections_) {
        if (connection->peer == peer && !connection->closed) read(*connection, sink);
      }
      moved |= tell_lost(peer, why, sink);
    }
    std::erase_if(connections_, [this](const auto& connection) {
      const Peer& peer = peer_of(connection->peer);
      return connection->closed || (peer.told && !peer.lost);
    });
  }
  if (!sent_.empty()) {
    reporting_.swap(sent_);  // a callback may send
    for (const SendToken token : reporting_) sink.sent(token);
    reporting_.clear();
    moved = true;
  }
  return moved;
}

/// Reads what has come, and delivers it. Returns whether there was anything.
bool TcpCarrier::read(Connection& connection, MessageSink& sink) {
  std::uint64_t all = 0;
  while (!connection.closed && !peer_of(connection.peer).lost) {
    if (all >= kMostAtOnce) {
      connection.waits->can_read.store(true, std::memory_order_relaxed);
      inbox_->look_again();
      return true;
    }
    if (connection.begin > 0) {
      std::memmove(connection.buffer.data(), connection.buffer.data() + connection.begin,
                   connection.end - connection.begin);
      connection.end -= std::exchange(connection.begin, 0);
    }
    IncomingMessages& in = connection.in;
    const bool to_body = in.in_body && in.body != nullptr;
    std::array<iovec, 2> into{
        {{in.body, to_body ? in.body_left : 0},
         {connection.buffer.data() + connection.end, to_body ? kBehindBody : kBuffer - connection.end}}};
    const std::span<iovec> used = std::span(into).subspan(to_body ? 0 : 1);
    const ssize_t bytes = ::readv(connection.socket.native_handle(), used.data(), static_cast<int>(used.size()));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      wait_to_read(connection);
      return all > 0;
    }
    if (bytes <= 0) {
      end(connection, bytes == 0 ? "it has ended" : std::system_category().message(errno), sink);
      return true;
    }
    auto there = static_cast<std::uint64_t>(bytes);
    all += there;
    if (to_body) {
      const std::uint64_t of_body = std::min(there, in.body_left);
      in.body += of_body;
      in.body_left -= of_body;
      there -= of_body;
    }
    connection.end += there;
    std::span<const std::byte> left(connection.buffer.data() + connection.begin, connection.end - connection.begin);
    const bool good = in.deliver(left, sink);
    connection.begin = connection.end - left.size();
    if (!good) {
      end(connection, "it has sent what is no message", sink);
      return true;
    }
  }
  return all > 0;
}

/// The connection has ended. Its peer has left where its last word has come: a goodbye on another connection may come
/// before messages that it has sent on one of its own. Without a goodbye it is lost.
void TcpCarrier::end(Connection& connection, const std::string& how, MessageSink& sink) {
  connection.closed = true;
  Peer& peer = peer_of(connection.peer);
  give_up(peer);
  if (connection.in.goodbye) {
    if (connection.in.goodbye->note == kLastWord && !std::exchange(peer.told, true)) sink.left(connection.peer);
    return;
  }
  for (const auto& other : connections_) {
    if (other->peer == connection.peer && !other->closed) read(*other, sink);
  }
  tell_lost(connection.peer, lost(connection.peer, how), sink);
}

/// Once a peer. Returns whether this was it.
bool TcpCarrier::tell_lost(int rank, const Error& why, MessageSink& sink) {
  Peer& peer = peer_of(rank);
  give_up(peer);
  if (std::exchange(peer.told, true)) return false;
  peer.lost = true;
  sink.lost(rank, why);
  return true;
}

/// Sends that wait for the peer complete now, and so will all later ones.
void TcpCarrier::give_up(Peer& peer) {
  peer.gone = true;
  peer.out = nullptr;
  for (const OutgoingMessage& message : peer.waiting) {
    if (message.token != kNoToken) sent_.push_back(message.token);
  }
  peer.waiting.clear();
}

void TcpCarrier::leave() {
  Leaving leaving;
  const auto all_written = [this] {
    return std::ranges::all_of(peers_, [](const auto& p) { return p->waiting.empty(); });
  };
  leaving.until(all_written, [this] {
    bool moved = false;
    for (auto& [from, socket] : inbox_->take_arrived()) adopt(from, std::move(socket)), moved = true;
    for (const auto& peer : peers_) moved |= peer->out != nullptr && write(*peer);
    for (const auto& [peer, why] : inbox_->take_lost()) give_up(peer_of(peer));
    return moved;
  });
  for (const auto& connection : connections_) {
    if (connection->closed || peer_of(connection->peer).lost) continue;
    const bool sends_here = peer_of(connection->peer).out == connection.get();
    const Envelope goodbye{.note = sends_here ? kLastWord : 0, .head_bytes = kGoodbye};
    const int socket = connection->socket.native_handle();
    leaving.until(
        [&] { return ::send(socket, &goodbye, sizeof goodbye, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno != EAGAIN; },
        [] { return false; });
    ::shutdown(socket, SHUT_WR);
  }
  for (const auto& connection : connections_) {
    if (peer_of(connection->peer).lost) continue;
    const int socket = connection->socket.native_handle();
    int unsent = 0, before = 0;
    leaving.until([&] { return is_given_up(socket) || ::ioctl(socket, TIOCOUTQ, &unsent) != 0 || unsent == 0; },
                  [&] { return std::exchange(before, unsent) > unsent; });
  }
}

}  // namespace stretto
