#include "stretto/transport/hosts/piece_carrier.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "stretto/base/words.h"
#include "stretto/transport/hosts/leaving.h"
#include "stretto/transport/hosts/message_stream.h"

namespace stretto {
namespace {

constexpr int kMostOnWay = 16;                          // pieces to a peer: what waits longer need not be copied yet
constexpr std::uint64_t kMostTakenAtOnce = 4 << 20;     // received before the caller looks at other things
constexpr int kMostTries = 200;                         // to drive the way before the caller looks at other things
constexpr Duration kForNews = std::chrono::seconds(3);  // of a peer to which there is no way
constexpr Duration kForTheRest = std::chrono::milliseconds(50);  // of what a peer that is lost has sent

}  // namespace

/// The words of two ranks by TCP, as the channel of an envelope.
enum class PieceCarrier::Word : std::uint16_t {
  address,   ///< PieceWay::address() of the sender, as the head
  last,      ///< the sender leaves, and has sent so many pieces (note)
  has_come,  ///< all of these have come
  beat,      ///< a piece may come; the kernel finds out whether there is a way
};

struct PieceCarrier::Peer {
  /// How it ends, while something may still come of it.
  struct End {
    std::optional<Error> lost;  // nothing: it has left
    TimePoint by;               // the sink hears of it then at the latest
  };

  int rank;
  IncomingMessages in{.peer = rank};
  std::deque<OutgoingMessage> waiting = {};  // in order; the first may be half written
  bool linked = false;
  bool knows_address = false;              // of this rank
  bool gone = false;                       // has left or is lost: sends go nowhere
  bool told = false;                       // and the sink knows
  bool beats = false;                      // something was sent since the last beat
  int on_way = 0;                          // pieces that the way has
  TimePoint posted = {};                   // the last of them
  std::uint64_t sent = 0, came = 0;        // pieces
  std::optional<std::uint64_t> last = {};  // pieces it has sent in all; it leaves
  bool all_came = false;                   // and it has heard that these have come
  bool has_all = false;                    // all that this rank has sent
  std::string broken = {};                 // what the library says of the way
  std::optional<End> end = {};
};

/// Hears what comes by TCP.
class PieceCarrier::Words final : public MessageSink {
 public:
  explicit Words(PieceCarrier& carrier) : carrier_(carrier) {}
  std::byte* begin(int peer, const Envelope& envelope, std::span<const std::byte> head) override {
    carrier_.hear(peer, envelope, head);
    return nullptr;
  }
  void end(int) override {}
  void sent(SendToken) override {}
  void lost(int peer, const Error& reason) override { carrier_.begin_end(carrier_.peer_of(peer), reason); }
  void left(int peer) override { carrier_.begin_end(carrier_.peer_of(peer), {}); }

 private:
  PieceCarrier& carrier_;
};

PieceCarrier::PieceCarrier(std::string library, std::unique_ptr<PieceWay> way, TcpCarrier& control, int ranks,
                           Duration missed_after)
    : library_(std::move(library)),
      control_(control),
      missed_after_(missed_after),
      way_(std::move(way)),
      address_(way_->address()) {
  for (int rank = 0; rank < ranks; ++rank) peers_.push_back(std::make_unique<Peer>(Peer{.rank = rank}));
  way_->begin(*this);
}

PieceCarrier::~PieceCarrier() {
  way_.reset();
  for (auto& piece : pieces_) {
    if (piece->is_kept) (void)piece.release();
  }
}

void PieceCarrier::say(int to, Word word, std::uint64_t note, std::span<const std::byte> head) {
  const Envelope envelope{
      .note = note, .head_bytes = static_cast<std::uint32_t>(head.size()), .channel = static_cast<std::uint16_t>(word)};
  control_.send(to, envelope, head, {}, kNoToken);
}

void PieceCarrier::tell_address(Peer& peer) {
  if (!std::exchange(peer.knows_address, true)) say(peer.rank, Word::address, 0, address_);
}

void PieceCarrier::hear(int from, const Envelope& envelope, std::span<const std::byte> head) {
  Peer& peer = peer_of(from);
  switch (static_cast<Word>(envelope.channel)) {
    case Word::address:
      tell_address(peer);
      if (peer.gone || std::exchange(peer.linked, true)) return;
      way_->link(from, head);
      return post(peer);
    case Word::last:
      peer.last = envelope.note;
      unsettled_ = true;
      return;
    case Word::has_come: peer.has_all = true; return;
    case Word::beat: way_->wake(); return;
  }
}

void PieceCarrier::begin_end(Peer& peer, std::optional<Error> lost) {
  const TimePoint by = clock_.now() + (lost ? kForTheRest : kForNews);
  peer.end = Peer::End{std::move(lost), by};
  unsettled_ = true;
  give_up(peer);
}

/// There is no way to the peer. Where it has ended, that comes by TCP, too; else it is lost after a while.
void PieceCarrier::broken(int rank, const std::string& how) {
  Peer& peer = peer_of(rank);
  if (!peer.broken.empty()) return;
  peer.broken = how;
  give_up(peer);
  if (!peer.end) {
    peer.end = Peer::End{Error{Errc::lost_peer, text("rank ", rank, " is lost: ", library_, ": ", how), rank},
                         clock_.now() + kForNews};
  }
  unsettled_ = true;
}

/// Sends that wait for the peer complete now, and so will all later ones.
void PieceCarrier::give_up(Peer& peer) {
  peer.gone = true;
  for (const OutgoingMessage& message : peer.waiting) {
    if (message.token != kNoToken) sent_.push_back(message.token);
  }
  peer.waiting.clear();
}

void PieceCarrier::send(int to, const Envelope& envelope, std::span<const std::byte> head,
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

/// Hands over what waits for the peer, as far as not too much of it is on its way.
void PieceCarrier::post(Peer& peer) {
  while (!peer.waiting.empty() && peer.linked && !peer.gone && peer.on_way < kMostOnWay) {
    if (free_.empty()) {
      pieces_.push_back(std::make_unique<Piece>());
      free_.push_back(pieces_.back().get());
    }
    Piece& piece = *free_.back();
    free_.pop_back();
    std::span<std::byte> room(piece.room);
    while (!peer.waiting.empty()) {
      OutgoingMessage& front = peer.waiting.front();
      // A head goes whole, so that the receiver keeps nothing of a piece.
      if (front.written == 0 && room.size() < sizeof(Envelope) + front.head.size()) break;
      room = front.write_to(room);
      if (front.written < front.bytes()) break;
      if (front.token != kNoToken) sent_.push_back(front.token);
      peer.waiting.pop_front();
    }
    piece.peer = peer.rank;
    piece.number = peer.sent++;
    piece.bytes = piece.room.size() - room.size();
    ++moves_;
    ++peer.on_way;
    if (way_->dozes()) {
      const TimePoint now = clock_.now();
      if (now - std::exchange(peer.posted, now) > kUntilDozing / 2) say(peer.rank, Word::beat);
    }
    way_->post(piece);
  }
}

void PieceCarrier::left(Piece& piece) {
  --peer_of(piece.peer).on_way;
  ++moves_;
  free_.push_back(&piece);
}

void PieceCarrier::came(int from, std::span<const std::byte> bytes) {
  Peer& peer = peer_of(from);
  if (peer.told || sink_ == nullptr) return;
  came_ += bytes.size();
  ++moves_;
  ++peer.came;
  if (peer.end) peer.end->by = std::max(peer.end->by, clock_.now() + (peer.end->lost ? kForTheRest : kForNews));
  try {
    if (!peer.in.deliver(bytes, *sink_) || !bytes.empty()) broken(from, "it has sent what is no message");
  } catch (...) {  // not through the library
    if (!thrown_) thrown_ = std::current_exception();
  }
}

TimePoint PieceCarrier::poll_by() const {
  if (!sent_.empty()) return {};
  TimePoint by = std::min(control_.poll_by(), way_->progress_by());
  if (unsettled_) {
    for (const auto& peer : peers_) {
      if (peer->end && !peer->told) by = std::min(by, peer->end->by);
    }
  }
  return by;
}

bool PieceCarrier::poll(MessageSink& sink) {
  sink_ = &sink;
  Words words(*this);
  bool moved = control_.poll(words);
  if (missed_after_ > Duration::zero() && clock_.now() >= beat_at_) {
    beat_at_ = clock_.now() + missed_after_ / 10;
    for (const auto& peer : peers_) {
      if (std::exchange(peer->beats, false) && !peer->gone) say(peer->rank, Word::beat);
    }
  }
  if (way_->has_work()) moved |= progress();
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

/// Drives the way until it has nothing to do, and then has it rest. One that is busy with a peer that is not there says
/// every time that it has done something, so messages alone count as moved.
bool PieceCarrier::progress() {
  const std::uint64_t moves = moves_;
  came_ = 0;
  for (int tries = 0; tries < kMostTries && came_ < kMostTakenAtOnce && !thrown_; ++tries) {
    driven_ = true;
    const bool more = way_->progress();
    driven_ = false;
    for (const auto& peer : peers_) {
      if (!peer->waiting.empty()) post(*peer);
    }
    if (!more && way_->rest()) break;
  }
  return moves_ != moves;
}

/// Sees to the peers that end. Returns whether one has.
bool PieceCarrier::settle(MessageSink& sink) {
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

void PieceCarrier::leave() {
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
    if (!peer->gone && peer->linked) say(peer->rank, Word::last, peer->sent);
  }
  leaving.until([&] { return all([](const Peer& peer) { return peer.has_all || !peer.linked; }); }, moves);
  control_.leave();
}

}  // namespace stretto
