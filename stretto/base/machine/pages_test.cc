#include "stretto/base/machine/pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <thread>

namespace stretto {
namespace {

constexpr std::size_t kBytes = 4 * kHugePage;

class HugePages : public ::testing::Test {
 protected:
  HugePages() : at_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~HugePages() override { munmap(at_, kBytes); }
  std::span<std::byte> room() { return {static_cast<std::byte*>(at_), kBytes}; }

 private:
  void* const at_;
};

TEST_F(HugePages, ChangeNoBytes) {
  for (std::size_t i = 0; i < kBytes; i += 512) room()[i] = static_cast<std::byte>(i / 512);
  for (const std::size_t begin : {std::size_t{0}, std::size_t{4096 + 17}, kBytes / 2}) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, kWorthHugePages, kBytes - begin}) {
      use_huge_pages(room().subspan(begin, std::min(bytes, kBytes - begin)), room());
    }
  }
  for (std::size_t i = 0; i < kBytes; ++i) {
    ASSERT_EQ(room()[i], i % 512 == 0 ? static_cast<std::byte>(i / 512) : std::byte{0}) << i;
  }
}

TEST_F(HugePages, AreLaidWhileTheirNeighboursAreWritten) {
  std::thread writer([this] {
    for (int pass = 0; pass < 20; ++pass) std::memset(room().data(), pass, kBytes / 2);
  });
  use_huge_pages(room().subspan(kBytes / 2 - kPage, kBytes / 2), room());
  writer.join();
  for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(room()[i], i < kBytes / 2 ? std::byte{19} : std::byte{0}) << i;
}

TEST_F(HugePages, StayWithinTheirRoom) {
  // What lies around may be no memory at all.
  const std::size_t hole = kHugePage;
  ASSERT_EQ(munmap(room().data(), hole), 0);
  use_huge_pages(room().subspan(hole, kBytes - hole), room().subspan(hole));
  std::memset(room().data() + hole, 1, kBytes - hole);
}

}  // namespace
}  // namespace stretto
