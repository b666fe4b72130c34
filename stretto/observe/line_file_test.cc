#include "stretto/observe/line_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace stretto {
namespace {

using ::testing::HasSubstr;

std::string content(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

class LineFileTest : public ::testing::Test {
 protected:
  ~LineFileTest() override { std::filesystem::remove(path_); }
  const std::string path_ = ::testing::TempDir() + "stretto_lines_" + std::to_string(getpid());
};

TEST_F(LineFileTest, HoldsTheLinesInOrder) {
  std::string expected;
  {
    LineFile file(path_);
    for (int i = 0; i < 20000; ++i) {
      const std::string line = "line " + std::to_string(i);
      file.append(line);
      expected += line + "\n";
    }
    EXPECT_TRUE(file.complete());
  }
  EXPECT_EQ(content(path_), expected);
}

TEST_F(LineFileTest, ReplacesOrContinues) {
  { LineFile(path_).append("one"); }
  { LineFile(path_, LineFile::Mode::append).append("two"); }
  EXPECT_EQ(content(path_), "one\ntwo\n");
  { LineFile(path_).append("three"); }
  EXPECT_EQ(content(path_), "three\n");
}

TEST_F(LineFileTest, FlushMakesLinesVisible) {
  LineFile file(path_);
  file.append("one");
  EXPECT_EQ(content(path_), "");
  file.flush();
  EXPECT_EQ(content(path_), "one\n");
}

TEST(LineFile, AFullDiskCostsLinesAndSaysSoOnce) {
  LineFile file("/dev/full");
  for (int i = 0; i < 30000; ++i) file.append("a record");
  file.flush();
  EXPECT_EQ(file.lost(), 30000u);
  ASSERT_FALSE(file.complete());
  EXPECT_EQ(file.complete().error().code, Errc::io);
  EXPECT_EQ(file.complete().error().message, "30000 records of '/dev/full' were lost: No space left on device");
}

TEST(LineFile, SoDoesAFolderThatIsNotThere) {
  LineFile file("/nowhere/at/all");
  file.append("a record");
  file.flush();
  EXPECT_EQ(file.lost(), 1u);
  EXPECT_THAT(file.complete().error().message, HasSubstr("No such file"));
}

/// A limit on the size of files behaves as a disk that is full in the middle of a line.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(LineFileTest, AFullDiskLeavesWholeLinesAndGoesOnWhenThereIsRoomAgain) {
  LineFile file(path_);
  file.append("0123456789");
  file.flush();
  {
    const SizeLimit full(30);
    for (int i = 0; i < 3; ++i) file.append("abcdefghi");  // 11 + 3 × 10 bytes: one of them fits, half of the next
    file.flush();
    EXPECT_EQ(content(path_), "0123456789\nabcdefghi\n");
    EXPECT_EQ(file.lost(), 2u);
    file.append("abcdefghi");
    file.flush();
    EXPECT_EQ(file.lost(), 3u);
  }
  file.append("more");
  file.flush();
  EXPECT_EQ(content(path_), "0123456789\nabcdefghi\nmore\n");
  EXPECT_THAT(file.complete().error().message, HasSubstr("3 records"));
}

}  // namespace
}  // namespace stretto
