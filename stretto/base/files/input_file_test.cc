#include "stretto/base/files/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

namespace stretto {
namespace {

using testing::HasSubstr;

class InputFiles : public testing::Test {
 protected:
  const std::string path_ = testing::TempDir() + "/input_file_" + std::to_string(getpid());

  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& content) const { std::ofstream(path_, std::ios::binary) << content; }
  std::string compressed(const std::string& content) const {
    const gzFile file = gzopen(path_.c_str(), "wb9");
    EXPECT_EQ(gzwrite(file, content.data(), static_cast<unsigned>(content.size())), static_cast<int>(content.size()));
    EXPECT_EQ(gzclose(file), Z_OK);
    return read_all(open_file(path_, FileContent::bytes)).or_throw();
  }
  std::string content_of(const std::string& file) const {
    write(file);
    return read_all(open_file(path_)).or_throw();
  }
  std::string fault_of(const std::string& file) const {
    write(file);
    const auto read = read_all(open_file(path_));
    return read ? "none" : read.error().message;
  }
};

TEST_F(InputFiles, AreOpenedWhereTheyAreFiles) {
  write("first\nsecond\n");
  std::filesystem::create_symlink(path_, path_ + ".link");
  for (const std::string& name : {path_, path_ + ".link"}) {
    auto file = open_file(name);
    ASSERT_TRUE(file) << file.error().message;
    std::string line;
    EXPECT_TRUE(std::getline(file->stream(), line));
    EXPECT_EQ(line, "first");
    EXPECT_TRUE(file->whole());
    EXPECT_EQ(file->consumed(), 13u);
  }
  std::filesystem::remove(path_);
  const auto gone = open_file(path_ + ".link");
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().message, text("cannot open '", path_, ".link': No such file or directory"));
  std::filesystem::remove(path_ + ".link");
}

TEST_F(InputFiles, AreRefusedWhereTheyHaveNoEndOrOpeningThemMayWait) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", path_ + ".link");
  for (const std::string& name : {path_, path_ + ".link", std::string("/dev/urandom"), std::string("/dev/tty")}) {
    const auto file = open_file(name);
    ASSERT_FALSE(file) << name;
    EXPECT_EQ(file.error().code, Errc::io);
    EXPECT_EQ(file.error().message, text("cannot read '", name, "': it is no file"));
  }
  EXPECT_THAT(open_file("/").error().message, HasSubstr("it is a folder"));
  EXPECT_EQ(open_file("/proc/self/mem").error().message, "cannot read '/proc/self/mem': Input/output error");
  std::filesystem::remove(path_ + ".link");
}

TEST_F(InputFiles, AreUnpackedWhereGzipHasCompressedThem) {
  std::string long_text;
  for (int i = 0; i < 50'000; ++i) long_text += text(i, ",0,0.", i, "\n");
  EXPECT_EQ(content_of(compressed(long_text)), long_text);
  EXPECT_EQ(content_of(compressed("")), "");
  EXPECT_EQ(content_of(compressed("a\n") + compressed("b\n")), "a\nb\n") << "as cat makes of two";
  const std::string packed = compressed(long_text);
  write(packed);
  EXPECT_EQ(read_all(open_file(path_, FileContent::bytes)).or_throw(), packed);
}

TEST_F(InputFiles, CompressedDataThatIsDamagedOrEndsTooEarlyIsNamed) {
  const std::string packed = compressed("0,0,0.25\n0,1,0.5\n");
  for (std::size_t size = 2; size < packed.size(); ++size) {
    const std::string cut = fault_of(packed.substr(0, size));
    EXPECT_EQ(cut, text("cannot read '", path_, "': it is cut off: its compressed data ends too early")) << size;
  }
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1;  // of the checksum
  EXPECT_EQ(fault_of(damaged), text("cannot read '", path_, "': its compressed data is damaged"));
  EXPECT_EQ(fault_of(compressed(packed)), text("'", path_, "' is compressed twice; expected what gunzip makes of it"));
}

TEST_F(InputFiles, ABombOfZerosEndsWithALine) {
  const gzFile file = gzopen(path_.c_str(), "wb9");
  const std::string zeros(1 << 20, ' ');
  for (int i = 0; i < 80; ++i) gzwrite(file, zeros.data(), static_cast<unsigned>(zeros.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
  auto bomb = open_file(path_);
  ASSERT_TRUE(bomb);
  std::uint64_t size = 0;
  for (std::string chunk(1 << 16, ' '); bomb->stream().read(chunk.data(), 1 << 16);) size += chunk.size();
  EXPECT_LE(size, std::uint64_t{64} << 20);
  EXPECT_THAT(bomb->whole().error().message, HasSubstr("more than 200 times its size comes out of it"));
}

TEST_F(InputFiles, AByteOrderMarkIsSkippedAndOtherEncodingsAreNamed) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_EQ(content_of(mark + "a" + mark), "a" + mark) << "only at the begin";
  EXPECT_EQ(content_of(mark), "");
  EXPECT_EQ(content_of(compressed(mark + "a")), "a");
  EXPECT_EQ(content_of("\xef\xbb"), "\xef\xbb");
  write(mark + "a");
  EXPECT_EQ(read_all(open_file(path_, FileContent::bytes)).or_throw(), mark + "a");
  const std::string utf16 = text("'", path_, "' is text in UTF-16; expected UTF-8");
  EXPECT_EQ(fault_of("\xff\xfe{"), utf16);
  EXPECT_EQ(fault_of("\xfe\xff"), utf16);
  EXPECT_EQ(fault_of(std::string("{\0", 2)), utf16);
  EXPECT_EQ(fault_of(std::string("\0{", 2)), utf16);
  EXPECT_EQ(fault_of(compressed("\xff\xfe{")), utf16);
  EXPECT_THAT(fault_of("\x28\xb5\x2f\xfd and on"), HasSubstr("compressed by zstd"));
  EXPECT_THAT(fault_of("PK\x03\x04"), HasSubstr("a zip archive"));
}

TEST_F(InputFiles, TextWithAByteOfZeroIsRefused) {
  const auto refusal = [&](std::uint64_t place) {
    return text("cannot read '", path_, "': it is no text: byte ", place, " of it is 0; expected UTF-8");
  };
  EXPECT_EQ(fault_of(std::string(100, '\0')), refusal(1));
  EXPECT_EQ(fault_of(std::string("\0", 1)), refusal(1));
  EXPECT_EQ(fault_of(std::string("ab\0c", 4)), refusal(3));
  EXPECT_EQ(fault_of(compressed(std::string("ab\0c", 4))), refusal(3));
  EXPECT_EQ(fault_of(std::string("\xef\xbb\xbf") + std::string("a\0", 2)), refusal(5));
  EXPECT_EQ(fault_of(std::string("a\n\0", 3)), refusal(3)) << "behind a whole line";
  EXPECT_EQ(fault_of(std::string(200'000, 'a') + '\0'), refusal(200'001)) << "far behind its begin";
  EXPECT_TRUE(open_file(path_).or_throw().whole()) << "where none has been met";
  const std::string bytes("ab\0c", 4);
  write(bytes);
  EXPECT_EQ(open_file(path_).error().code, Errc::bad_input);
  EXPECT_EQ(read_all(open_file(path_, FileContent::bytes)).or_throw(), bytes);
}

TEST_F(InputFiles, TheRestOfASparseFileIsNotRead) {
  write("0,0,0.25\n" + std::string(100'000, '#'));
  std::filesystem::resize_file(path_, std::uint64_t{6} << 30);
  auto file = open_file(path_).or_throw();
  std::string first, second;
  EXPECT_TRUE(std::getline(file.stream(), first));
  EXPECT_TRUE(std::getline(file.stream(), second));
  EXPECT_EQ(second.size(), 100'000u);
  EXPECT_TRUE(file.stream().eof());
  EXPECT_LT(file.consumed(), 1u << 20);
  EXPECT_THAT(file.whole().error().message, HasSubstr("byte 100010 of it is 0"));
}

TEST_F(InputFiles, PackedTextStaysAsItIs) {
  const std::string packed = compressed("a\n");
  for (const std::string& content : {packed, std::string("\xef\xbb\xbf{}"), std::string()}) {
    write(content);
    EXPECT_EQ(read_all(open_file(path_, FileContent::packed)).or_throw(), content);
  }
  for (const std::string& content : {std::string("{\0", 2), std::string(9, '\0')}) {
    const std::string fault = fault_of(content);
    EXPECT_EQ(open_file(path_, FileContent::packed).error().message, fault);
  }
}

/// What standard input is, as long as it lives: a pipe.
class PipedInput {
 public:
  PipedInput() : before_(dup(STDIN_FILENO)) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    EXPECT_EQ(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    close(ends[0]);
    end_ = ends[1];
  }
  ~PipedInput() {
    dup2(before_, STDIN_FILENO);
    close(before_);
  }
  /// Where is written; the caller closes it.
  int end() const { return end_; }

 private:
  const int before_;
  int end_ = -1;
};

TEST(StandardInput, WithoutAnEndIsRefused) {
  std::optional<PipedInput> piped(std::in_place);
  std::thread writer([end = piped->end()] {
    const auto before = signal(SIGPIPE, SIG_IGN);
    std::string lines;
    while (lines.size() < 1 << 16) lines += "y\n";
    while (write(end, lines.data(), lines.size()) > 0) continue;
    signal(SIGPIPE, before);
    close(end);
  });
  std::uint64_t size = 0;
  {
    auto input = open_standard_input().or_throw();
    for (std::string chunk(1 << 16, ' '); input.stream().read(chunk.data(), 1 << 16);) size += chunk.size();
    EXPECT_EQ(input.whole().error().code, Errc::bad_input);
    EXPECT_EQ(input.whole().error().message,
              "cannot read standard input: more than 1 GiB comes from it; expected less, or the name of a file");
  }
  EXPECT_EQ(size, kMostOfStandardInput);
  piped.reset();
  writer.join();
}

}  // namespace
}  // namespace stretto
