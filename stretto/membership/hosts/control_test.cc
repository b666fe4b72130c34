#include "stretto/membership/hosts/control.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "stretto/membership/hosts/line.h"
#include "stretto/membership/hosts/testing/raw_peer.h"

namespace stretto {
namespace {

using asio::ip::tcp;

/// What a rank that asks for a counter says when rank 0 answers with `line`.
std::string said_to(const std::string& line) {
  NetworkThread network;
  tcp::acceptor door(network.io(), {asio::ip::make_address("127.0.0.1"), 0});
  tcp::socket socket(network.io());
  socket.connect(door.local_endpoint());
  RawPeer rank0(door.accept());
  Control control(network, std::make_shared<Line>(std::move(socket)));
  auto said = std::async(std::launch::async, [&]() -> std::string {
    try {
      return text(control.fetch_add(3, 5));
    } catch (const Failure& failure) {
      return text(name_of(failure.error().code), ": ", failure.what());
    }
  });
  EXPECT_EQ(rank0.hear(), R"({"add":3,"by":5,"id":1})");
  rank0.send(line);
  return said.get();
}

TEST(Control, TakesAnAnswer) {
  EXPECT_EQ(said_to(R"({"id": 1, "was": 18446744073709551615})"), "18446744073709551615");
}

TEST(Control, HasLostARankZeroWhoseAnswerCannotBeRead) {
  const std::string lost =
      "lost_peer: rank 0, which has the counters of the job, is lost: its answer about a counter cannot be read: ";
  EXPECT_EQ(said_to(R"({"id": 1, "was": -1})"),
            lost + "'was' is -1; expected a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(said_to(std::string(Line::kMostBytes, 'x')), lost + "it has more than 16777216 bytes");
}

/// Rank 0 may have ended because of a loss of which this rank hears a moment later.
TEST(Control, GivesTheReasonThatComesBehindTheEndOfRank0) {
  NetworkThread network;
  tcp::acceptor door(network.io(), {asio::ip::make_address("127.0.0.1"), 0});
  tcp::socket socket(network.io());
  socket.connect(door.local_endpoint());
  auto rank0 = std::make_unique<RawPeer>(door.accept());
  Control control(network, std::make_shared<Line>(std::move(socket)));
  auto said = std::async(std::launch::async, [&]() -> std::string {
    try {
      return text(control.fetch_add(3, 5));
    } catch (const Failure& failure) {
      return failure.what();
    }
  });
  EXPECT_NE(rank0->hear(), "");
  rank0.reset();
  EXPECT_EQ(said.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  control.end({Errc::lost_peer, "h3 hears nothing of h2", 2});
  EXPECT_EQ(said.get(), "h3 hears nothing of h2");
}

}  // namespace
}  // namespace stretto
