#include "stretto/membership/hosts/line.h"

#include <gtest/gtest.h>

#include <asio/co_spawn.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>
#include <memory>
#include <utility>

#include "stretto/membership/hosts/members/link_words.h"

namespace stretto {
namespace {

using asio::ip::tcp;

/// Whether a line, on which `written` words were written after the other side has ended, says that it was closed there.
bool is_closed_there(bool resets, int written) {
  NetworkThread network;
  tcp::acceptor acceptor(network.io(), {asio::ip::address_v4::loopback(), 0});
  tcp::socket here(network.io()), there(network.io());
  here.connect(acceptor.local_endpoint());
  acceptor.accept(there);
  const auto line = std::make_shared<Line>(std::move(here));
  there.set_option(asio::socket_base::linger(resets, 0));
  there.close();
  const auto read = [&]() -> asio::awaitable<void> {
    for (int i = 0; i < written; ++i) line->write(ProcessWords::of(ProcessWords::Kind::beat));
    co_await asio::post(network.io(), asio::use_awaitable);  // they are written by then
    EXPECT_FALSE(co_await line->read<ProcessWords>());
  };
  asio::co_spawn(network.io(), read, asio::use_future).get();
  return line->is_closed_there();
}

TEST(LineTest, KnowsWhetherTheOtherSideHasClosedItOrItWasReset) {
  for (const int written : {0, 1}) {
    EXPECT_TRUE(is_closed_there(false, written)) << written;
    EXPECT_FALSE(is_closed_there(true, written)) << written << ": the kernel tells whoever asks first, and that once";
  }
}

}  // namespace
}  // namespace stretto
