#include "stretto/membership/hosts/members/master_server.h"

#include <gtest/gtest.h>

#include <asio/co_spawn.hpp>
#include <asio/use_future.hpp>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/membership/hosts/line.h"
#include "stretto/membership/hosts/members/link_words.h"

namespace stretto {
namespace {

/// A process that is cut off right after it has come must know what a silence is, too.
TEST(MasterServer, SaysFirstHowLongASilenceIs) {
  const Token token = new_token();
  NetworkThread network;
  Door door(network, {.address = asio::ip::address_v4::loopback(), .token = token});
  MemoryRegister views;
  const MasterServer server(network, door, views, {.liveness = std::chrono::hours(1)}, {});
  const std::vector<asio::ip::tcp::endpoint> at{door.endpoint()};
  const Hello hello{.use = Hello::Use::member, .version = {}};
  const auto come = [&] {
    asio::ip::tcp::socket socket(network.io());
    EXPECT_FALSE(asio::co_spawn(network.io(), say_hello(socket, at, hello, token), asio::use_future).get());
    auto line = std::make_shared<Line>(std::move(socket));
    network.run([&] { line->write(ProcessWords::of(ProcessWords::Kind::look)); });
    return line;
  };
  using Heard = std::optional<Result<MasterWords>>;  // a future has a value that is made of nothing
  const auto hear = [&](const std::shared_ptr<Line>& line) {
    const auto listen = [line]() -> asio::awaitable<Heard> { co_return co_await line->read<MasterWords>(); };
    return asio::co_spawn(network.io(), listen, asio::use_future).get()->value();
  };
  const auto before = come();
  while (hear(before).kind != MasterWords::Kind::beat) {
  }
  const auto line = come();  // the next beat for all is minutes away
  const MasterWords first = hear(line);
  EXPECT_EQ(first.kind, MasterWords::Kind::beat);
  EXPECT_EQ(first.limit, std::chrono::hours(1));
  network.run([&] {
    before->cancel();
    line->cancel();
  });
}

}  // namespace
}  // namespace stretto
