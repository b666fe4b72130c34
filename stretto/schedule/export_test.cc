#include "stretto/schedule/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/schedule/builder.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;
using Kind = ExportNode::Kind;

/// Rank 0 computes and sends 64 bytes and a word without a body; rank 1 receives both and adds.
std::vector<Schedule> two_messages() {
  ScheduleBuilder zero("two", 0, 2), one("two", 1, 2);
  const auto x = zero.buffer("x", DataType::float32, 16);
  const OpId computed = zero.delay(Duration(2500), {});
  const OpId word = zero.send(1, 0, {}, {});
  const OpId sent = zero.send(1, 1, zero.whole(x), {computed, word});
  const auto a = one.buffer("a", DataType::float32, 16), b = one.buffer("b", DataType::float32, 16);
  const OpId heard = one.recv(0, 0, {}, {});
  const OpId got = one.recv(0, 1, one.whole(b), {});
  const OpId sum = one.reduce(one.whole(a), one.whole(b), ReduceOp::sum, {heard, got});
  one.label(sum, "sum");
  return {zero.build(sent), one.build(sum)};
}

TEST(Export, HasSizesTimesAndATagForEachMessage) {
  const auto ranks = export_of(two_messages(), 0);
  ASSERT_EQ(ranks.size(), 2U);
  const auto& [computed, word, sent] = std::tie(ranks[0][0], ranks[0][1], ranks[0][2]);
  EXPECT_EQ(computed.kind, Kind::compute);
  EXPECT_EQ(computed.nanoseconds, 2500U);
  EXPECT_EQ(word.bytes, 1U) << "a message without a body";
  EXPECT_EQ(sent.kind, Kind::send);
  EXPECT_EQ(sent.bytes, 64U);
  EXPECT_EQ(sent.peer, 1);
  EXPECT_EQ(sent.after, (std::vector<std::uint32_t>{1, 0})) << "in the order in which they finish";
  const auto& [heard, got, sum] = std::tie(ranks[1][0], ranks[1][1], ranks[1][2]);
  EXPECT_EQ(heard.tag, word.tag);
  EXPECT_EQ(got.tag, sent.tag);
  EXPECT_NE(heard.tag, got.tag);
  EXPECT_EQ(sum.name, "sum");
  EXPECT_EQ(sum.nanoseconds, 8U);
}

TEST(Export, RefusesRanksThatDoNotComplete) {
  ScheduleBuilder other("alone", 0, 2), waits("alone", 1, 2);
  const OpId free = other.nop({});
  const OpId own = waits.nop({});
  waits.external(own);
  const std::vector<Schedule> schedules{other.build(free), waits.build(own)};
  EXPECT_EQ(export_of(schedules, 1).size(), 2U);
  try {
    export_of(schedules, 0);
    FAIL() << "rank 1 is never triggered";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot finish on rank 1"));
  }
}

/// The bytes of a small file, by hand: lengths, then field << 3 | wire type before each value.
TEST(ChakraOfRank, WritesTheFieldsOfTheSchema) {
  const std::vector<ExportNode> nodes{{.id = 300, .name = "a", .nanoseconds = 1500}};
  const std::string node =
      "\x08\xac\x02"  // id: 300
      "\x12\x01"
      "a"                                   // name
      "\x18\x04"                            // type: COMP_NODE
      "\x52\x0e\x0a\x09is_cpu_op\xd8\x01";  // attr: is_cpu_op …
  const std::string file = chakra_of_rank(0, nodes);
  const std::string metadata =
      "\x07\x0a\x05"
      "0.0.4";
  ASSERT_EQ(file.substr(0, metadata.size()), metadata);
  EXPECT_EQ(static_cast<std::size_t>(file[metadata.size()]), file.size() - metadata.size() - 1);
  EXPECT_EQ(file.substr(metadata.size() + 1, node.size()), node);
  EXPECT_THAT(file, HasSubstr(std::string("\x38\x02", 2))) << "duration_micros: 1.5, rounded";
  EXPECT_THAT(file, HasSubstr(std::string("duration_nanos\x68\xdc\x0b"))) << "and in full";
}

}  // namespace
}  // namespace stretto
