#include "command/run/tagged_lines.h"

#include <gtest/gtest.h>

namespace stretto::command {
namespace {

std::string tagged(const std::vector<std::string>& parts) {
  TaggedLines lines("<2> ");
  std::string out;
  for (const std::string& part : parts) lines.add(part, out);
  lines.end(out);
  return out;
}

TEST(TaggedLines, TagsEachLineOnceHoweverItComes) {
  for (const auto& parts : std::vector<std::vector<std::string>>{
           {"one\ntwo\n\nthree"}, {"one", "\ntw", "o\n", "\n", "", "three"}, {"one\n", "two\n\nth", "ree"}}) {
    EXPECT_EQ(tagged(parts), "<2> one\n<2> two\n<2> \n<2> three\n");
  }
  EXPECT_EQ(tagged({}), "");
  EXPECT_EQ(tagged({"\n"}), "<2> \n");
}

TEST(TaggedLines, ALineComesOutWhenItIsWhole) {
  TaggedLines lines("t ");
  std::string out;
  lines.add("half", out);
  EXPECT_EQ(out, "");
  lines.add(" a line\nhalf", out);
  EXPECT_EQ(out, "t half a line\n");
}

TEST(TaggedLines, ProgressBarsEndTheirLinesByAReturn) {
  EXPECT_EQ(tagged({"\r 1 %\r", " 2 %\r", "\nend\r\n"}), "<2> \r<2>  1 %\r<2>  2 %\r\n<2> end\r\n");
  EXPECT_EQ(tagged({"10 %\r"}), "<2> 10 %\r");
}

TEST(TaggedLines, KeepsEveryByte) {
  std::string bytes;
  for (int i = 0; i < 70'000; ++i) bytes += static_cast<char>(i * 7919 % 256 == '\r' ? 0 : i * 7919 % 256);
  bytes += '\n';
  std::string out = tagged({bytes.substr(0, 33'333), bytes.substr(33'333)});
  std::string kept;
  for (std::size_t at = 0; at < out.size();) {
    ASSERT_EQ(out.substr(at, 4), "<2> ");
    const std::size_t end = out.find('\n', at) + 1;
    kept += out.substr(at + 4, end - at - 4);
    at = end;
  }
  EXPECT_EQ(kept, bytes);
}

TEST(TaggedLines, ALineWithoutEndTakesBoundedMemory) {
  TaggedLines lines("t ");
  std::string out;
  const std::string part(100'000, 'x');
  for (int i = 0; i < 21; ++i) lines.add(part, out);
  const std::string whole = "t " + std::string(TaggedLines::kLongestLine, 'x') + "\n";
  EXPECT_EQ(out, whole + whole);
  out.clear();
  lines.add("\n", out);
  EXPECT_EQ(out, "t " + std::string(2'100'000 - 2 * TaggedLines::kLongestLine, 'x') + "\n");
}

}  // namespace
}  // namespace stretto::command
