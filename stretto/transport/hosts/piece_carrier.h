#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/transport/hosts/carrier.h"
#include "stretto/transport/hosts/piece_way.h"
#include "stretto/transport/hosts/tcp.h"

namespace stretto {

/// Messages by a library of others (UCX, MPI). A body goes in pieces, each of which is sent without asking: over TCP an
/// answer for which a sender waits comes behind all that the other side sends, so that of two directions one would
/// stand still. A piece is copied where it is handed over, so that the body is free at once, whatever becomes of the
/// way.
///
/// Beside them each pair of ranks has the connection of `control`, a carrier by TCP, which the library does not know:
/// by it two ranks exchange their addresses, and hear of goodbyes and of who is lost. What the library says of a broken
/// way counts only where nothing is heard there for some seconds.
class PieceCarrier final : public Carrier, private PieceSink {
 public:
  /// `control` outlives it. `missed_after`: MissedPeers::limit; zero: nobody is missed.
  PieceCarrier(std::string library, std::unique_ptr<PieceWay> way, TcpCarrier& control, int ranks,
               Duration missed_after);
  ~PieceCarrier() override;

  void send(int to, const Envelope& envelope, std::span<const std::byte> head, std::span<const std::byte> body,
            SendToken token) override;
  bool poll(MessageSink& sink) override;
  TimePoint poll_by() const override;
  void leave() override;
  bool has_ended() override { return way_->leave(); }

 private:
  struct Peer;
  class Words;
  enum class Word : std::uint16_t;

  void came(int peer, std::span<const std::byte> bytes) override;
  void left(Piece& piece) override;
  void broken(int peer, const std::string& how) override;

  Peer& peer_of(int rank) { return *peers_[static_cast<std::size_t>(rank)]; }
  void say(int to, Word word, std::uint64_t note = 0, std::span<const std::byte> head = {});
  void tell_address(Peer& peer);
  void hear(int from, const Envelope& envelope, std::span<const std::byte> head);
  void begin_end(Peer& peer, std::optional<Error> lost);
  void give_up(Peer& peer);
  bool settle(MessageSink& sink);
  bool progress();
  void post(Peer& peer);

  const std::string library_;
  TcpCarrier& control_;
  const Duration missed_after_;
  const SteadyClock clock_;
  bool driven_ = false;          // inside PieceWay::progress()
  MessageSink* sink_ = nullptr;  // inside poll()
  std::exception_ptr thrown_;    // by the sink, through the library
  std::uint64_t moves_ = 0;      // pieces that were handed over, have left or have come
  std::uint64_t came_ = 0;       // bytes, since poll() began
  bool unsettled_ = false;       // some peer ends
  TimePoint beat_at_;
  std::vector<SendToken> sent_, reporting_;
  std::vector<std::unique_ptr<Peer>> peers_;    // by rank
  std::vector<std::unique_ptr<Piece>> pieces_;  // all
  std::vector<Piece*> free_;
  std::unique_ptr<PieceWay> way_;
  std::vector<std::byte> address_;
};

}  // namespace stretto
