#include "stretto/membership/hosts/members/master_server.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/version.h"
#include "stretto/membership/hosts/members/link_words.h"
#include "stretto/membership/hosts/testing/raw_peer.h"

namespace stretto {
namespace {

using Kind = MasterWords::Kind;

/// A server, and processes that come to it.
class ServedMembers : public testing::Test {
 protected:
  RawPeer come(const std::string& version = text("stretto ", stretto_version())) {
    return {network_.io(), door_.endpoint(), {.use = Hello::Use::member, .version = version}, token_};
  }
  /// One that speaks for a member.
  RawPeer come_as(MemberNumber number, const std::string& process, std::uint64_t epoch) {
    RawPeer peer = come();
    send(peer, {.hello = {.number = number, .host = "h", .epoch = epoch}, .words = process});
    return peer;
  }
  static void send(RawPeer& peer, const ProcessWords& words) { peer.send(words.encoded()); }
  static MasterWords hear(RawPeer& peer) { return MasterWords::decoded(peer.hear()).or_throw(); }
  /// The next word of one kind, and in `others` those before it but beats.
  static MasterWords hear(RawPeer& peer, Kind kind, std::vector<Kind>* others = nullptr) {
    for (;;) {
      MasterWords words = hear(peer);
      if (words.kind == kind) return words;
      if (others != nullptr && words.kind != Kind::beat) others->push_back(words.kind);
    }
  }

  const Token token_ = new_token();
  NetworkThread network_;
  Door door_{network_, {.address = asio::ip::address_v4::loopback(), .token = token_}};
  MemoryRegister views_;
  const MasterServer server_{
      network_, door_, views_, {.master = {.least = 2, .most = 2}, .places = 4, .liveness = std::chrono::hours(1)}, {}};
};

/// A process that is cut off right after it has come must know what a silence is, too.
TEST_F(ServedMembers, HearFirstHowLongASilenceIs) {
  RawPeer before = come();
  send(before, ProcessWords::of(ProcessWords::Kind::look));
  (void)hear(before, Kind::beat);
  RawPeer peer = come();  // the next beat for all is minutes away
  const MasterWords first = hear(peer);
  EXPECT_EQ(first.kind, Kind::beat);
  EXPECT_EQ(first.limit, std::chrono::hours(1));
}

TEST_F(ServedMembers, OfAnotherVersionAreToldSo) {
  RawPeer peer = come("stretto 0.1");
  const MasterWords first = hear(peer);
  EXPECT_EQ(first.kind, Kind::refuse);
  EXPECT_EQ(first.why, text("version is stretto 0.1 here, and stretto ", stretto_version(), " in the job"));
}

TEST_F(ServedMembers, MayMakeAnotherConnection) {
  RawPeer zero = come_as(0, "a", 0), one = come_as(1, "b", 0);
  EXPECT_EQ(hear(zero, Kind::tell).content->view.epoch, 0u);
  EXPECT_EQ(hear(zero, Kind::tell).content->view.epoch, 1u);
  send(one, {.kind = ProcessWords::Kind::take, .batches = 9});
  EXPECT_EQ(hear(one, Kind::batch).batch, 0u);
  send(one, {.kind = ProcessWords::Kind::take, .batches = 9, .taken = 1});
  EXPECT_EQ(hear(one, Kind::batch).batch, 1u);

  RawPeer again = come_as(1, "b", 1);
  EXPECT_EQ(hear(again, Kind::tell).content->view.epoch, 1u);
  while (!one.hear().empty()) {  // it ends
  }
  send(again, {.kind = ProcessWords::Kind::take, .batches = 9, .taken = 1});
  EXPECT_EQ(hear(again, Kind::batch).batch, 1u) << "it may not have heard of that one";
  send(again, {.kind = ProcessWords::Kind::take, .batches = 9, .taken = 2});
  EXPECT_EQ(hear(again, Kind::batch).batch, 2u);

  RawPeer other = come_as(1, "c", 0);
  EXPECT_EQ(hear(other, Kind::refuse).why, "member 1 is another process, which is there");

  std::vector<Kind> heard;
  send(zero, {.kind = ProcessWords::Kind::take, .batches = 9});
  EXPECT_EQ(hear(zero, Kind::batch, &heard).batch, 3u);
  EXPECT_EQ(heard, std::vector<Kind>()) << "nobody was lost";
}

TEST_F(ServedMembers, AreToldAgainWhatTheyMayNotHaveHeard) {
  RawPeer zero = come_as(0, "a", 0), one = come_as(1, "b", 0);
  while (hear(zero, Kind::tell).content->view.epoch < 1) {
  }
  send(zero, {.kind = ProcessWords::Kind::publish, .epoch = 1, .words = "here"});
  EXPECT_EQ(hear(one, Kind::meet).words, "here");
  RawPeer visitor = come();
  send(visitor, ProcessWords::of(ProcessWords::Kind::send, 1));
  (void)hear(one, Kind::leave);

  RawPeer again = come_as(1, "b", 0);
  EXPECT_EQ(hear(again, Kind::tell).content->view.epoch, 1u);
  (void)hear(again, Kind::leave);
  EXPECT_EQ(hear(again, Kind::meet).words, "here");
}

TEST_F(ServedMembers, ThatCloseTheirConnectionsAreLostAtOnce) {
  RawPeer zero = come_as(0, "a", 0);
  {
    RawPeer one = come_as(1, "b", 0);
    while (hear(zero, Kind::tell).content->view.epoch < 1) {
    }
    while (hear(one, Kind::tell).content->view.epoch < 1) {
    }
  }
  EXPECT_EQ(hear(zero, Kind::freeze).epoch, 1u);
}

}  // namespace
}  // namespace stretto
