#include "stretto/transport/hosts/link_watch.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <optional>
#include <vector>

#include "stretto/transport/hosts/door.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

TEST(LinkWatch, MissesAPeerWhoseLinkDoesNotWorkAndWhomNoOtherConnectionReaches) {
  enum Peer { reached, gone, works };
  constexpr Duration kLimit = 50ms;
  NetworkThread network;
  const DoorOptions options{.address = asio::ip::address_v4::loopback(), .token = new_token()};
  const Door door(network, options);
  std::optional<Door> closed(std::in_place, network, options);
  const std::vector<asio::ip::tcp::endpoint> at{door.endpoint(), closed->endpoint(), closed->endpoint()};
  closed.reset();

  std::array<std::atomic<int>, 3> missed{};
  std::atomic<std::int64_t> first{0};
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  {
    const auto tell = [&](int peer) {
      if (missed.at(static_cast<std::size_t>(peer))++ == 0) first = (clock.now() - begin).count();
    };
    LinkWatch watch(network, at, {.limit = kLimit, .tell = tell});
    while (missed[gone] < 3 && clock.now() - begin < 20s) watch.look([](int peer) { return peer == works; });
  }
  EXPECT_GE(missed[gone], 3) << "while that lasts";
  EXPECT_EQ(missed[reached], 0);
  EXPECT_EQ(missed[works], 0);
  EXPECT_GE(Duration(first), kLimit);
}

}  // namespace
}  // namespace stretto
