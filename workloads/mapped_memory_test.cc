#include "workloads/mapped_memory.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace stretto {
namespace {

TEST(MappedMemory, IsZeroedAndWritable) {
  auto memory = MappedMemory::allocate(1 << 20, "test");
  ASSERT_TRUE(memory.ok()) << memory.error().message;
  EXPECT_EQ(memory->bytes().size(), std::size_t{1} << 20);
  EXPECT_TRUE(std::ranges::all_of(memory->bytes(), [](std::byte b) { return b == std::byte{0}; }));
  memory->bytes()[12345] = std::byte{7};
  const MappedMemory moved = std::move(*memory);
  EXPECT_EQ(moved.bytes()[12345], std::byte{7});
}

TEST(MappedMemory, TooMuchIsRefusedWithBothSizes) {
  const auto memory = MappedMemory::allocate(std::size_t{1} << 60, "hyperplane with many points");
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, Errc::unavailable);
  EXPECT_THAT(memory.error().message,
              testing::MatchesRegex("hyperplane with many points needs 1.0 EiB of memory, and .* are left .*"));
}

TEST(MappedMemory, ForkedProcessReadsItAndMustNotWrite) {
  auto memory = MappedMemory::allocate(4096, "test");
  ASSERT_TRUE(memory.ok());
  memory->bytes()[0] = std::byte{42};
  memory->make_read_only();
  const pid_t child = fork();
  if (child == 0) _exit(memory->bytes()[0] == std::byte{42} ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_DEATH(memory->bytes()[0] = std::byte{1}, "");
}

}  // namespace
}  // namespace stretto
