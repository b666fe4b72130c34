#include "stretto/transport/ring.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace stretto {
namespace {

struct Ring {
  RingWords words;
  std::array<std::byte, 64> data{};
  RingWriter writer{words, data.data(), data.size()};
  RingReader reader{words, data.data(), data.size()};
};

TEST(Ring, IsEmptyAndHasAllItsRoomAtFirst) {
  Ring ring;
  EXPECT_EQ(ring.writer.room(1), 64u);
  EXPECT_EQ(ring.reader.available(), 0u);
}

TEST(Ring, ShowsNothingBeforePublishAndFreesNothingBeforeRelease) {
  Ring ring;
  const std::vector<std::byte> bytes(40, std::byte{7});
  ring.writer.write(bytes.data(), 40);
  EXPECT_EQ(ring.reader.available(), 0u);
  ring.writer.publish();
  EXPECT_EQ(ring.reader.available(), 40u);
  std::vector<std::byte> out(40);
  ring.reader.read(out.data(), 40);
  EXPECT_EQ(out, bytes);
  EXPECT_EQ(ring.writer.room(64), 24u);
  EXPECT_FALSE(ring.reader.release());
  EXPECT_EQ(ring.writer.room(64), 64u);
}

TEST(Ring, TellsAWaitingWriterOnce) {
  Ring ring;
  const std::vector<std::byte> bytes(64);
  ring.writer.write(bytes.data(), 64);
  ring.writer.publish();
  EXPECT_FALSE(ring.writer.ask_for_room(1));
  ring.reader.read(nullptr, 8);
  EXPECT_TRUE(ring.reader.release());
  ring.reader.read(nullptr, 8);
  EXPECT_FALSE(ring.reader.release());
  EXPECT_FALSE(ring.writer.ask_for_room(17));
  EXPECT_TRUE(ring.writer.ask_for_room(16));
}

TEST(Ring, KeepsTheStreamAcrossItsEndAndBetweenThreads) {
  Ring ring;
  constexpr std::uint64_t kBytes = 1 << 18;
  std::thread reader([&] {
    std::uint64_t seen = 0;
    std::array<unsigned char, 64> out{};
    while (seen < kBytes) {
      const std::uint64_t n = ring.reader.available();
      if (n == 0) std::this_thread::yield();
      ring.reader.read(out.data(), n);
      ring.reader.release();
      for (std::uint64_t i = 0; i < n; ++i, ++seen) {
        ASSERT_EQ(out[i], static_cast<unsigned char>(seen * 31 + seen / 256));
      }
    }
  });
  std::array<unsigned char, 64> in{};
  for (std::uint64_t sent = 0; sent < kBytes;) {
    const std::uint64_t n = std::min<std::uint64_t>({ring.writer.room(1), kBytes - sent, 1 + sent % 37});
    if (n == 0) std::this_thread::yield();
    for (std::uint64_t i = 0; i < n; ++i, ++sent) in[i] = static_cast<unsigned char>(sent * 31 + sent / 256);
    ring.writer.write(in.data(), n);
    ring.writer.publish();
  }
  reader.join();
}

}  // namespace
}  // namespace stretto
