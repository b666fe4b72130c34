#include "workloads/csv_gz.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <string>

#include "stretto/observe/temporary_folder.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

std::string compressed(const TemporaryFolder& folder, const std::string& content) {
  std::string path = folder.path() + "/compressed.gz";
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
  return path;
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(ReadGz, ReturnsWhatWasCompressed) {
  const TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 50000; ++i) content += std::to_string(i * 40503L) + "\n";
  const auto read = read_gz(compressed(folder, content));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, content);
}

TEST(ReadGz, NoticesEveryTruncation) {
  const TemporaryFolder folder;
  const std::string whole = bytes_of(compressed(folder, "1,2,3\n4,5,6\n7,8,9\n1,2,3\n"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto read = read_gz(folder.write("cut.gz", whole.substr(0, size)));
    EXPECT_FALSE(read.ok()) << size << " of " << whole.size() << " bytes";
  }
}

TEST(ReadGz, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  EXPECT_THAT(read_gz(folder.path() + "/none.gz").error().message, EndsWith("/none.gz: No such file or directory"));
  EXPECT_THAT(read_gz(folder.write("plain.gz", "1,2,3\n")).error().message,
              EndsWith("plain.gz: not compressed by gzip"));
  const std::string whole = bytes_of(compressed(folder, std::string(10000, 'x')));
  EXPECT_THAT(read_gz(folder.write("cut.gz", whole.substr(0, whole.size() / 2))).error().message,
              HasSubstr("truncated"));
  std::string damaged = whole;
  damaged[damaged.size() - 6] ^= 0x55;  // of the checksum
  EXPECT_THAT(read_gz(folder.write("damaged.gz", damaged)).error().message, HasSubstr("damaged"));
}

TEST(ParseCsv, ReadsRows) {
  const auto table = parse_csv("1,2.5,-3\n4,5,6e2\r\n", "x.csv");
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->columns, 3u);
  EXPECT_EQ(table->rows(), 2u);
  EXPECT_THAT(table->values, ElementsAre(1, 2.5F, -3, 4, 5, 600));
  EXPECT_EQ(table->row(1)[2], 600);
}

TEST(ParseCsv, NamesLineAndColumn) {
  EXPECT_EQ(parse_csv("1,2\n3\n", "x.csv").error().message, "x.csv:2: 1 columns; expected 2 as on the first line");
  EXPECT_EQ(parse_csv("1,2\n3,four\n", "x.csv").error().message, "x.csv:2: column 2 is not a number");
  EXPECT_EQ(parse_csv("1,2\n\n3,4\n", "x.csv").error().message, "x.csv:2: column 1 is not a number");
  EXPECT_EQ(parse_csv("1,inf\n", "x.csv").error().message, "x.csv:1: column 2 is not a number");
  ASSERT_TRUE(parse_csv("", "x.csv").ok());
  EXPECT_EQ(parse_csv("", "x.csv")->rows(), 0u);
}

}  // namespace
}  // namespace stretto
