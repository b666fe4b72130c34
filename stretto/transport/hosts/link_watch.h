#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/function_ref.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

/// How a rank hears of peers on other hosts to which it finds no way.
struct MissedPeers {
  Duration limit{0};  ///< a peer is missed when its link has not worked for so long; zero: none ever is
  /// Is told which one, again and again while that lasts. Any thread.
  std::function<void(int peer)> tell = {};

  explicit operator bool() const { return limit > Duration::zero() && tell; }
};

/// Sees which peers a rank misses: a link has not worked for the limit, and no other connection to that peer's host can
/// be made by then. Without the second part a short cut was taken for a long one, since a kernel waits ever longer
/// between two attempts, and hears late that a link is back. One thread.
class LinkWatch {
 public:
  /// `at`: where each peer listens. `network` outlives it. Requires: `missed` is one.
  LinkWatch(NetworkThread& network, std::vector<asio::ip::tcp::endpoint> at, MissedPeers missed);
  ~LinkWatch();  ///< nobody is told any more
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;

  /// When look() is to be called next.
  TimePoint look_by() const { return look_by_; }
  /// Looks at each peer, ten times within the limit. `works`: its link does as far as the kernel knows, or is not used.
  void look(FunctionRef<bool(int peer)> works);

 private:
  struct Probes;

  NetworkThread& network_;
  const std::vector<asio::ip::tcp::endpoint> at_;
  const Duration limit_;
  const SteadyClock clock_;
  const std::shared_ptr<Probes> probes_;          // the network's thread's
  std::vector<std::optional<TimePoint>> broken_;  // by peer, since when
  TimePoint look_by_;
};

}  // namespace stretto
