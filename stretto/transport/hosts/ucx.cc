#include "stretto/transport/hosts/ucx.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

#include "stretto/base/words.h"
#include "stretto/transport/hosts/leaving.h"
#include "stretto/transport/hosts/message_stream.h"
#include "stretto/transport/hosts/ucx_library.h"
#include "stretto/transport/hosts/ucx_worker.h"

namespace stretto {
namespace {

constexpr std::size_t kPiece = 60 << 10;
constexpr int kMostOnWay = 16;                          // pieces to a peer: what waits longer need not be copied yet
constexpr std::uint64_t kMostTakenAtOnce = 4 << 20;     // received before the caller looks at other things
constexpr int kMostTries = 200;                         // to drive the worker before the caller looks at other things
constexpr Duration kForNews = std::chrono::seconds(3);  // of a peer to which UCX finds no way
constexpr Duration kForTheRest = std::chrono::milliseconds(50);  // of what a peer that is lost has sent

/// The words of two ranks by TCP, as the channel of an envelope.
enum class Word : std::uint16_t {
  address,   ///< where UCX of the sender listens, as the head
  last,      ///< the sender leaves, and has sent so many pieces (note)
  has_come,  ///< all of these have come
  beat,      ///< nothing: the kernel finds out whether there is a way
};

/// In front of each piece.
struct PieceHeader {
  std::uint64_t secret;  // the hash of the job's token
  std::uint64_t number;  // pieces of the sender to this peer before it
  std::uint32_t from;
  std::uint32_t unused = 0;
};

class UcxCarrier final : public Carrier {
 public:
  UcxCarrier(const UcxLibrary& ucx, NetworkThread& network, TcpCarrier& control, const UcxOptions& options,
             const Doorbell& doorbell);
  ~UcxCarrier() override;

  void send(int to, const Envelope& envelope, std::span<const std::byte> head, std::span<const std::byte> body,
            SendToken token) override;
  bool poll(MessageSink& sink) override;
  TimePoint poll_by() const override;
  void leave() override;

 private:
  struct Peer;
  struct Piece;
  class Words;

  /// How a peer ends, of which something may still come.
  struct End {
    std::optional<Error> lost;  // nothing: it has left
    TimePoint by;               // the sink hears of it then at the latest
  };

  Peer& peer_of(int rank) { return *peers_[static_cast<std::size_t>(rank)]; }
  void say(int to, Word word, std::uint64_t note = 0, std::span<const std::byte> head = {});
  void tell_address(Peer& peer);
  void hear(int from, const Envelope& envelope, std::span<const std::byte> head);
  void begin_end(Peer& peer, std::optional<Error> lost);
  void fail(Peer& peer, const std::string& how);
  void give_up(Peer& peer);
  bool settle(MessageSink& sink);
  bool progress();
  bool go_to_sleep();
  void post(Peer& peer);
  static void posted(void* request, ucs_status_t status, void* piece);
  static ucs_status_t received(void* self, const void* header, std::size_t header_bytes, void* data, std::size_t bytes,
                               const ucp_am_recv_param_t* how);
  void take(const PieceHeader& header, std::span<const std::byte> bytes);

  const UcxLibrary& ucx_;
  NetworkThread& network_;
  TcpCarrier& control_;
  const UcxOptions options_;
  const std::uint64_t secret_;
  const SteadyClock clock_;
  Doorbell doorbell_;
  std::atomic<bool> awake_{true};  // the descriptor has something; set by the network's thread
  bool listened_to_ = false;       // by the network's thread, until it sets awake_
  bool touched_ = false;           // something was posted since the worker was asleep
  bool driven_ = false;            // inside ucp_worker_progress()
  MessageSink* sink_ = nullptr;    // inside poll()
  std::exception_ptr thrown_;      // by the sink, through UCX
  std::uint64_t moves_ = 0;        // pieces that were handed over, have left or have come
  std::uint64_t came_ = 0;         // bytes, since poll() began
  bool unsettled_ = false;         // some peer ends
  TimePoint beat_at_;
  std::vector<SendToken> sent_, reporting_;
  std::vector<std::unique_ptr<Peer>> peers_;    // by rank
  std::vector<std::unique_ptr<Piece>> pieces_;  // all
  std::vector<Piece*> free_;
  std::unique_ptr<UcxWorker> worker_;
  std::vector<std::byte> address_;
  asio::posix::stream_descriptor descriptor_;
};

struct UcxCarrier::Piece {
  PieceHeader header;
  Peer* peer = nullptr;
  UcxCarrier* carrier = nullptr;
  std::vector<std::byte> bytes = std::vector<std::byte>(kPiece);
};

struct UcxCarrier::Peer {
  int rank;
  UcxCarrier* carrier;
  IncomingMessages in{.peer = rank};
  std::deque<OutgoingMessage> waiting = {};  // in order; the first may be half written
  ucp_ep_h endpoint = nullptr;
  bool knows_address = false;              // of this rank
  bool gone = false;                       // has left or is lost: sends go nowhere
  bool told = false;                       // and the sink knows
  bool beats = false;                      // something was sent since the last beat
  int on_way = 0;                          // pieces that UCX has
  std::uint64_t sent = 0, came = 0;        // pieces
  std::optional<std::uint64_t> last = {};  // pieces it has sent in all; it leaves
  bool all_came = false;                   // and it has heard that these have come
  bool has_all = false;                    // all that this rank has sent
  std::string broken = {};                 // what UCX says of the way
  std::optional<End> end = {};
};

/// What comes by TCP.
class UcxCarrier::Words final : public MessageSink {
 public:
  explicit Words(UcxCarrier& carrier) : carrier_(carrier) {}
  std::byte* begin(int peer, const Envelope& envelope, std::span<const std::byte> head) override {
    carrier_.hear(peer, envelope, head);
    return nullptr;
  }
  void end(int) override {}
  void sent(SendToken) override {}
  void lost(int peer, const Error& reason) override { carrier_.begin_end(carrier_.peer_of(peer), reason); }
  void left(int peer) override { carrier_.begin_end(carrier_.peer_of(peer), {}); }

 private:
  UcxCarrier& carrier_;
};

UcxCarrier::UcxCarrier(const UcxLibrary& ucx, NetworkThread& network, TcpCarrier& control, const UcxOptions& options,
                       const Doorbell& doorbell)
    : ucx_(ucx),
      network_(network),
      control_(control),
      options_(options),
      secret_(XXH3_64bits(options.token.data(), options.token.size())),
      doorbell_(doorbell),
      worker_(std::make_unique<UcxWorker>(ucx, options)),
      address_(worker_->address()),
      descriptor_(network.io(), worker_->descriptor()) {
  for (int rank = 0; rank < options.ranks; ++rank) {
    peers_.push_back(std::make_unique<Peer>(Peer{.rank = rank, .carrier = this}));
  }
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = 0;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = &UcxCarrier::received;
  handler.arg = this;
  ucx_.set_am_recv_handler(worker_->get(), &handler);
}

UcxCarrier::~UcxCarrier() {
  network_.run([this] {
    descriptor_.cancel();
    descriptor_.release();  // UCX's own
  });
  network_.run([] {});  // what waited for it has heard
  worker_.reset();      // the last use of pieces
}

void UcxCarrier::say(int to, Word word, std::uint64_t note, std::span<const std::byte> head) {
  const Envelope envelope{
      .note = note, .head_bytes = static_cast<std::uint32_t>(head.size()), .channel = static_cast<std::uint16_t>(word)};
  control_.send(to, envelope, head, {}, kNoToken);
}

void UcxCarrier::tell_address(Peer& peer) {
  if (!std::exchange(peer.knows_address, true)) say(peer.rank, Word::address, 0, address_);
}

void UcxCarrier::hear(int from, const Envelope& envelope, std::span<const std::byte> head) {
  Peer& peer = peer_of(from);
  switch (static_cast<Word>(envelope.channel)) {
    case Word::address: {
      tell_address(peer);
      if (peer.endpoint != nullptr || peer.gone) return;
      ucp_ep_params_t params{};
      params.field_mask =
          UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
      params.address = reinterpret_cast<const ucp_address_t*>(head.data());
      params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
      params.err_handler.arg = &peer;
      params.err_handler.cb = [](void* of, ucp_ep_h, ucs_status_t status) {
        auto& it = *static_cast<Peer*>(of);
        it.carrier->fail(it, it.carrier->ucx_.status_string(status));
      };
      const ucs_status_t status = ucx_.ep_create(worker_->get(), &params, &peer.endpoint);
      if (status != UCS_OK) {
        peer.endpoint = nullptr;
        return fail(peer, ucx_.status_string(status));
      }
      return post(peer);
    }
    case Word::last:
      peer.last = envelope.note;
      unsettled_ = true;
      return;
    case Word::has_come: peer.has_all = true; return;
    case Word::beat: return;
  }
}

void UcxCarrier::begin_end(Peer& peer, std::optional<Error> lost) {
  const TimePoint by = clock_.now() + (lost ? kForTheRest : kForNews);
  peer.end = End{std::move(lost), by};
  unsettled_ = true;
  give_up(peer);
}

/// UCX has no way to the peer. Where it has ended, that comes by TCP, too; else it is lost after a while.
void UcxCarrier::fail(Peer& peer, const std::string& how) {
  if (!peer.broken.empty()) return;
  peer.broken = how;
  give_up(peer);
  if (!peer.end) {
    peer.end = End{Error{Errc::lost_peer, text("rank ", peer.rank, " is lost: UCX: ", how), peer.rank},
                   clock_.now() + kForNews};
  }
  unsettled_ = true;
}

/// Sends that wait for the peer complete now, and so will all later ones.
void UcxCarrier::give_up(Peer& peer) {
  peer.gone = true;
  for (const OutgoingMessage& message : peer.waiting) {
    if (message.token != kNoToken) sent_.push_back(message.token);
  }
  peer.waiting.clear();
}

void UcxCarrier::send(int to, const Envelope& envelope, std::span<const std::byte> head,
                      std::span<const std::byte> body, SendToken token) {
  Peer& peer = peer_of(to);
  if (peer.gone) {
    if (token != kNoToken) sent_.push_back(token);
    return;
  }
  peer.waiting.push_back({.envelope = envelope, .head = head, .body = body, .token = token});
  peer.beats = true;
  tell_address(peer);
  if (!driven_) post(peer);
  if (!peer.waiting.empty() && peer.waiting.back().written == 0) peer.waiting.back().keep_head();
}

/// Hands UCX what waits for the peer, as far as not too much of it is on its way.
void UcxCarrier::post(Peer& peer) {
  while (!peer.waiting.empty() && peer.endpoint != nullptr && !peer.gone && peer.on_way < kMostOnWay) {
    if (free_.empty()) {
      pieces_.push_back(std::make_unique<Piece>());
      free_.push_back(pieces_.back().get());
    }
    Piece& piece = *free_.back();
    free_.pop_back();
    std::span<std::byte> room(piece.bytes);
    while (!peer.waiting.empty()) {
      OutgoingMessage& front = peer.waiting.front();
      // A head goes whole, so that the receiver keeps nothing of a piece.
      if (front.written == 0 && room.size() < sizeof(Envelope) + front.head.size()) break;
      room = front.write_to(room);
      if (front.written < front.bytes()) break;
      if (front.token != kNoToken) sent_.push_back(front.token);
      peer.waiting.pop_front();
    }
    piece.header = {.secret = secret_, .number = peer.sent++, .from = static_cast<std::uint32_t>(options_.rank)};
    piece.peer = &peer;
    piece.carrier = this;
    touched_ = true;
    ++moves_;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.cb.send = &UcxCarrier::posted;
    param.user_data = &piece;
    const ucs_status_ptr_t request = ucx_.am_send_nbx(peer.endpoint, 0, &piece.header, sizeof piece.header,
                                                      piece.bytes.data(), piece.bytes.size() - room.size(), &param);
    if (UCS_PTR_IS_PTR(request)) {
      ++peer.on_way;
    } else {
      free_.push_back(&piece);
      if (UCS_PTR_IS_ERR(request)) fail(peer, ucx_.status_string(UCS_PTR_STATUS(request)));
    }
  }
}

/// UCX has sent a piece, or never will.
void UcxCarrier::posted(void* request, ucs_status_t status, void* of) {
  auto& piece = *static_cast<Piece*>(of);
  UcxCarrier& carrier = *piece.carrier;
  --piece.peer->on_way;
  ++carrier.moves_;
  carrier.free_.push_back(&piece);
  carrier.ucx_.request_free(request);
  if (status != UCS_OK) carrier.fail(*piece.peer, carrier.ucx_.status_string(status));
}

ucs_status_t UcxCarrier::received(void* self, const void* header, std::size_t header_bytes, void* data,
                                  std::size_t bytes, const ucp_am_recv_param_t* how) {
  auto& carrier = *static_cast<UcxCarrier*>(self);
  PieceHeader piece;
  // What does not know the secret comes from elsewhere.
  if (header_bytes != sizeof piece || (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  std::memcpy(&piece, header, sizeof piece);
  if (piece.secret != carrier.secret_ || piece.from >= carrier.peers_.size()) return UCS_OK;
  try {
    carrier.take(piece, {static_cast<const std::byte*>(data), bytes});
  } catch (...) {  // not through UCX
    if (!carrier.thrown_) carrier.thrown_ = std::current_exception();
  }
  return UCS_OK;
}

void UcxCarrier::take(const PieceHeader& header, std::span<const std::byte> bytes) {
  Peer& peer = peer_of(static_cast<int>(header.from));
  if (peer.told || sink_ == nullptr) return;
  came_ += bytes.size();
  ++moves_;
  if (header.number != peer.came) return fail(peer, text("piece ", header.number, " came as ", peer.came));
  ++peer.came;
  if (peer.end) peer.end->by = std::max(peer.end->by, clock_.now() + (peer.end->lost ? kForTheRest : kForNews));
  if (!peer.in.deliver(bytes, *sink_) || !bytes.empty()) fail(peer, "it has sent what is no message");
}

TimePoint UcxCarrier::poll_by() const {
  if (!sent_.empty() || touched_ || awake_.load(std::memory_order_relaxed)) return {};
  TimePoint by = control_.poll_by();
  if (unsettled_) {
    for (const auto& peer : peers_) {
      if (peer->end && !peer->told) by = std::min(by, peer->end->by);
    }
  }
  return by;
}

bool UcxCarrier::poll(MessageSink& sink) {
  sink_ = &sink;
  Words words(*this);
  bool moved = control_.poll(words);
  if (options_.missed_after > Duration::zero() && clock_.now() >= beat_at_) {
    beat_at_ = clock_.now() + options_.missed_after / 10;
    for (const auto& peer : peers_) {
      if (std::exchange(peer->beats, false) && !peer->gone) say(peer->rank, Word::beat);
    }
  }
  if (awake_.exchange(false, std::memory_order_acquire)) listened_to_ = false, touched_ = true;
  if (touched_) moved |= progress();
  if (unsettled_) moved |= settle(sink);
  if (!sent_.empty()) {
    reporting_.swap(sent_);  // a callback may send
    for (const SendToken token : reporting_) sink.sent(token);
    reporting_.clear();
    moved = true;
  }
  sink_ = nullptr;
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  return moved;
}

/// Drives the worker until it has nothing to do, and then has it sleep. One that is busy with a way that there is not
/// says every time that it has done something, so messages alone count as moved.
bool UcxCarrier::progress() {
  const std::uint64_t moves = moves_;
  came_ = 0;
  for (int tries = 0; tries < kMostTries && came_ < kMostTakenAtOnce && !thrown_; ++tries) {
    driven_ = true;
    const unsigned did = ucx_.worker_progress(worker_->get());
    driven_ = false;
    for (const auto& peer : peers_) {
      if (!peer->waiting.empty()) post(*peer);
    }
    if (did == 0 && go_to_sleep()) break;
  }
  return moves_ != moves;
}

/// Returns whether the worker sleeps: its descriptor wakes it up.
bool UcxCarrier::go_to_sleep() {
  if (ucx_.worker_arm(worker_->get()) != UCS_OK) return false;
  touched_ = false;
  if (std::exchange(listened_to_, true)) return true;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read, [this](asio::error_code error) {
    if (error) return;
    awake_.store(true, std::memory_order_release);
    doorbell_.ring();
  });
  return true;
}

/// Sees to the peers that end. Returns whether one has.
bool UcxCarrier::settle(MessageSink& sink) {
  bool moved = false;
  unsettled_ = false;
  const TimePoint now = clock_.now();
  for (const auto& each : peers_) {
    Peer& peer = *each;
    const bool has_come = peer.last && peer.came >= *peer.last;
    if (has_come && !std::exchange(peer.all_came, true)) say(peer.rank, Word::has_come);
    unsettled_ |= peer.last && !has_come && !peer.told;
    if (!peer.end || peer.told) continue;
    const bool is_over =
        peer.end->lost ? !peer.broken.empty() && peer.end->by - now <= kForTheRest : has_come || !peer.last;
    if (!is_over && now < peer.end->by) {
      unsettled_ = true;
      continue;
    }
    peer.told = moved = true;
    if (peer.end->lost) {
      sink.lost(peer.rank, *peer.end->lost);
    } else if (has_come || !peer.last) {
      sink.left(peer.rank);
    } else {
      sink.lost(peer.rank,
                {Errc::lost_peer, text("rank ", peer.rank, " is lost: it has left, and not all that it sent has come"),
                 peer.rank});
    }
  }
  return moved;
}

void UcxCarrier::leave() {
  /// Nobody takes messages any more.
  struct Nobody final : MessageSink {
    std::byte* begin(int, const Envelope&, std::span<const std::byte>) override { return nullptr; }
    void end(int) override {}
    void sent(SendToken) override {}
    void lost(int, const Error&) override {}
  } nobody;
  for (const auto& peer : peers_) peer->in.body = nullptr;  // of a sink that may be no more
  Leaving leaving;
  const auto all = [this](auto is_so) {
    return std::ranges::all_of(peers_, [&](const auto& peer) { return peer->gone || is_so(*peer); });
  };
  const auto moves = [&] { return poll(nobody); };
  leaving.until([&] { return all([](const Peer& peer) { return peer.waiting.empty() && peer.on_way == 0; }); }, moves);
  for (const auto& peer : peers_) {
    if (!peer->gone && peer->endpoint != nullptr) say(peer->rank, Word::last, peer->sent);
  }
  leaving.until([&] { return all([](const Peer& peer) { return peer.has_all || peer.endpoint == nullptr; }); }, moves);
  control_.leave();
}

}  // namespace

Result<std::string> ucx_version() {
  const auto ucx = load_ucx();
  if (!ucx) return ucx.error();
  return (*ucx)->version;
}

std::unique_ptr<Carrier> start_ucx(NetworkThread& network, TcpCarrier& control, const UcxOptions& options,
                                   const Doorbell& doorbell) {
  const UcxLibrary& ucx = *load_ucx().or_throw();
  return std::make_unique<UcxCarrier>(ucx, network, control, options, doorbell);
}

}  // namespace stretto
