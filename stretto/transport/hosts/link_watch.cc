#include "stretto/transport/hosts/link_watch.h"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/dispatch.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <cstddef>
#include <utility>

namespace stretto {
namespace {

using asio::ip::tcp;

constexpr std::chrono::seconds kForAnAnswer{1};

}  // namespace

/// Connections by which it is tried whether there is a way to a peer's host.
struct LinkWatch::Probes {
  MissedPeers missed;
  std::vector<bool> under_way;  // by peer
  bool ended = false;

  static asio::awaitable<void> try_way(std::shared_ptr<Probes> probes, int peer, tcp::endpoint at) {
    const auto executor = co_await asio::this_coro::executor;
    const auto socket = std::make_shared<tcp::socket>(executor);
    asio::steady_timer limit(executor, kForAnAnswer);
    limit.async_wait([socket](asio::error_code error) {
      asio::error_code ignored;
      if (!error) socket->close(ignored);
    });
    asio::error_code error;
    co_await socket->async_connect(at, asio::redirect_error(asio::use_awaitable, error));
    limit.cancel();
    probes->under_way[static_cast<std::size_t>(peer)] = false;
    if (error && !probes->ended) probes->missed.tell(peer);
  }
};

LinkWatch::LinkWatch(NetworkThread& network, std::vector<tcp::endpoint> at, MissedPeers missed)
    : network_(network),
      at_(std::move(at)),
      limit_(missed.limit),
      probes_(
          std::make_shared<Probes>(Probes{.missed = std::move(missed), .under_way = std::vector<bool>(at_.size())})),
      broken_(at_.size()),
      look_by_(clock_.now()) {}

LinkWatch::~LinkWatch() {
  network_.run([this] { probes_->ended = true; });
}

void LinkWatch::look(FunctionRef<bool(int peer)> works) {
  const TimePoint now = clock_.now();
  if (now < look_by_) return;
  look_by_ = now + limit_ / 10;
  for (std::size_t peer = 0; peer < at_.size(); ++peer) {
    if (works(static_cast<int>(peer))) {
      broken_[peer].reset();
      continue;
    }
    if (!broken_[peer]) broken_[peer] = now;
    if (now - *broken_[peer] < limit_) continue;
    asio::dispatch(network_.io(), [&io = network_.io(), probes = probes_, peer, at = at_[peer]] {
      if (probes->ended || probes->under_way[peer]) return;
      probes->under_way[peer] = true;
      asio::co_spawn(io, Probes::try_way(probes, static_cast<int>(peer), at), asio::detached);
    });
  }
}

}  // namespace stretto
