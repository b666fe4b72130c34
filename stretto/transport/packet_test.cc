#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "stretto/transport/mpi.h"

namespace stretto {
namespace {

bool reads(const Envelope& envelope, std::size_t bytes) {
  std::vector<std::byte> packet(bytes);
  std::copy_n(reinterpret_cast<const std::byte*>(&envelope), std::min(bytes, sizeof envelope), packet.begin());
  Envelope read;
  return read_packet(packet, read);
}

TEST(Packet, HasTheBytesThatItsEnvelopeSays) {
  constexpr std::size_t kEnvelope = sizeof(Envelope);
  EXPECT_TRUE(reads({}, kEnvelope));
  EXPECT_TRUE(reads({.body_bytes = 7, .head_bytes = 5}, kEnvelope + 12));
  EXPECT_TRUE(reads({.body_bytes = kMaxInlineBody, .head_bytes = kMaxHeadBytes}, kEnvelope + 4096 + 8192));
  EXPECT_TRUE(reads({.body_bytes = kMaxInlineBody + 1}, kEnvelope)) << "the body follows";
  EXPECT_FALSE(reads({}, kEnvelope - 1));
  EXPECT_FALSE(reads({}, 0));
  EXPECT_FALSE(reads({.head_bytes = 5}, kEnvelope + 4));
  EXPECT_FALSE(reads({.head_bytes = 5}, kEnvelope + 6));
  EXPECT_FALSE(reads({.body_bytes = 7, .head_bytes = 5}, kEnvelope + 5));
  EXPECT_FALSE(reads({.head_bytes = kMaxHeadBytes + 1}, kEnvelope + kMaxHeadBytes + 1));
  EXPECT_FALSE(reads({.head_bytes = ~std::uint32_t{0}}, kEnvelope));
}

}  // namespace
}  // namespace stretto
