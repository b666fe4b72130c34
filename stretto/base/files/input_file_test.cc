#include "stretto/base/files/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace stretto {
namespace {

using testing::HasSubstr;

TEST(InputFile, IsOpenedWhereItIsAFile) {
  const std::string path = testing::TempDir() + "/input_file_" + std::to_string(getpid());
  std::ofstream(path) << "first\nsecond\n";
  std::filesystem::create_symlink(path, path + ".link");
  for (const std::string& name : {path, path + ".link"}) {
    auto file = open_file(name);
    ASSERT_TRUE(file) << file.error().message;
    std::string line;
    EXPECT_TRUE(std::getline(*file, line));
    EXPECT_EQ(line, "first");
    EXPECT_TRUE(check_file(name));
  }
  std::filesystem::remove(path);
  const auto gone = open_file(path + ".link");
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().message, text("cannot open '", path, ".link': No such file or directory"));
  std::filesystem::remove(path + ".link");
}

TEST(InputFile, IsRefusedWhereItHasNoEndOrOpeningItMayWait) {
  const std::string pipe = testing::TempDir() + "/input_pipe_" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", pipe + ".link");
  for (const std::string& name : {pipe, pipe + ".link", std::string("/dev/urandom"), std::string("/dev/tty")}) {
    const auto file = open_file(name);
    ASSERT_FALSE(file) << name;
    EXPECT_EQ(file.error().code, Errc::io);
    EXPECT_EQ(file.error().message, text("cannot read '", name, "': it is no file"));
  }
  EXPECT_THAT(open_file("/").error().message, HasSubstr("it is a folder"));
  std::filesystem::remove(pipe);
  std::filesystem::remove(pipe + ".link");
}

}  // namespace
}  // namespace stretto
