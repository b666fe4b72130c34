#include "stretto/schedule/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/schedule/validate.h"

namespace stretto {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ScheduleBuilder, BuildsThePairOfTheManual) {
  ScheduleBuilder b("pair", 1, 2);
  const auto mine = b.buffer("mine", DataType::float32, 5);
  const auto theirs = b.scratch("theirs", DataType::float64, 6);
  const auto theirs4 = b.scratch("theirs", DataType::float32, 5);
  const OpId s = b.send(0, 3, b.whole(mine), {});
  const OpId r = b.recv(0, 3, b.whole(theirs4), {});
  const OpId sum = b.reduce(b.whole(mine), b.whole(theirs4), b.whole(mine), ReduceOp::max, {s, kNoOp, r});
  b.label(sum, "sum").with_header(sum);
  const Schedule schedule = b.build(sum);

  EXPECT_EQ(schedule.name(), "pair");
  EXPECT_EQ(schedule.rank(), 1);
  EXPECT_EQ(schedule.ranks(), 2);
  EXPECT_EQ(schedule.completion(), sum);
  EXPECT_EQ(schedule.find("sum"), sum);
  EXPECT_EQ(schedule.num_channels(), 4);
  ASSERT_EQ(schedule.ops().size(), 3u);
  EXPECT_EQ(schedule.op(s).kind, OpKind::send);
  EXPECT_EQ(schedule.op(s).src, (Slice{mine, 0, 5}));
  EXPECT_EQ(schedule.op(s).need, 0u);
  EXPECT_EQ(schedule.op(r).dst, (Slice{theirs4, 0, 5}));
  EXPECT_EQ(schedule.op(sum).need, 2u);
  EXPECT_EQ(schedule.op(sum).reduce_op, ReduceOp::max);
  EXPECT_EQ(schedule.op(sum).src, (Slice{theirs4, 0, 5}));
  EXPECT_EQ(schedule.op(sum).other, (Slice{mine, 0, 5}));
  EXPECT_TRUE(schedule.op(sum).with_header);
  EXPECT_THAT(schedule.successors(s), ElementsAre(sum));
  EXPECT_EQ(schedule.buffers()[theirs].role, BufferSpec::Role::scratch);
  EXPECT_EQ(bytes_of(schedule, schedule.op(sum)), 20u);
  EXPECT_EQ(describe(schedule, s), "send #0 (to rank 0, channel 3)");
  EXPECT_EQ(describe(schedule, sum), "reduce #2 \"sum\"");
}

TEST(ScheduleBuilder, CountsWhatAnOperationNeeds) {
  ScheduleBuilder b("needs", 0, 1);
  const OpId first = b.nop({});
  const OpId trigger = b.nop({});
  const OpId all = b.nop({first, trigger, first});
  const OpId any = b.nop({first, trigger});
  const OpId two = b.nop({first, trigger, all});
  const OpId triggered = b.nop({first});
  b.external(trigger).external(triggered).need(any, Need::any()).need(two, Need::count(2));
  const Schedule schedule = b.build(all);
  EXPECT_EQ(schedule.op(first).need, 0u);
  EXPECT_EQ(schedule.op(trigger).need, 1u);
  EXPECT_EQ(schedule.op(all).need, 2u) << "a predecessor named twice counts once";
  EXPECT_EQ(schedule.num_predecessors(all), 2u);
  EXPECT_EQ(schedule.op(any).need, 1u);
  EXPECT_EQ(schedule.op(two).need, 2u);
  EXPECT_EQ(schedule.op(triggered).need, 2u) << "the trigger counts as one more predecessor";
  EXPECT_EQ(schedule.num_predecessors(triggered), 1u);
  EXPECT_EQ(schedule.num_channels(), 0);
}

TEST(ScheduleBuilder, AnyOfMayCountTheTrigger) {
  ScheduleBuilder b("any", 0, 1);
  const OpId a = b.nop({});
  const OpId any = b.nop({a});
  b.external(any).need(any, Need::any());
  EXPECT_EQ(b.build(any).op(any).need, 1u);
  b.need(any, Need::count(2));
  EXPECT_EQ(b.build(any).op(any).need, 2u) << "a builder goes on after build()";
  b.need(any, Need::count(3));
  EXPECT_THAT(message_of([&] { b.build(any); }), HasSubstr("needs 3 of 2 predecessors; expected 1 to 2"));
}

TEST(ScheduleBuilder, RandomDagsKeepTheirEdges) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    ScheduleBuilder b("random", 0, 1);
    std::set<std::pair<OpId, OpId>> edges;
    const auto num_ops = static_cast<OpId>(random.between(1, 30));
    for (OpId id = 0; id < num_ops; ++id) b.nop({});
    // Edges go up in a hidden order, so that operations may wait for ones added later.
    const auto position = [&](OpId id) { return random_bits(seed, 99, id); };
    for (int i = 0; i < 60; ++i) {
      auto from = static_cast<OpId>(random.below(num_ops)), to = static_cast<OpId>(random.below(num_ops));
      if (from == to) continue;
      if (position(from) > position(to)) std::swap(from, to);
      b.add_after(to, from);
      edges.emplace(from, to);
    }
    const Schedule schedule = b.build(0);
    std::set<std::pair<OpId, OpId>> found;
    const auto before = predecessors_of(schedule);
    for (OpId id = 0; id < num_ops; ++id) {
      for (const OpId next : schedule.successors(id)) EXPECT_TRUE(found.emplace(id, next).second);
      EXPECT_EQ(schedule.num_predecessors(id), before[id].size());
      EXPECT_EQ(schedule.op(id).need, before[id].size());
      for (const OpId p : before[id]) EXPECT_TRUE(edges.contains({p, id}));
    }
    EXPECT_EQ(found, edges) << "seed " << seed;

    if (edges.empty()) continue;
    const auto [from, to] = *edges.begin();
    b.add_after(from, to);
    EXPECT_THAT(message_of([&] { b.build(0); }), HasSubstr("wait for each other")) << "seed " << seed;
  }
}

TEST(ScheduleBuilder, ACycleIsNamedInOrder) {
  ScheduleBuilder b("loop", 2, 4);
  const OpId start = b.nop({});
  const OpId x = b.nop({start});
  const OpId y = b.call(1, {x});
  const OpId z = b.delay(Duration(5), {y});
  b.nop({z});
  b.add_after(x, z);
  b.label(x, "x").label(z, "z").need(x, Need::any());
  EXPECT_THAT(message_of([&] { b.build(start); }),
              AllOf(HasSubstr("schedule \"loop\" of rank 2"),
                    HasSubstr("nop #1 \"x\" → call #2 → delay #3 \"z\" → nop #1 \"x\"")));
  ScheduleBuilder self("self", 0, 1);
  const OpId only = self.nop({});
  self.add_after(only, only);
  EXPECT_THAT(message_of([&] { self.build(only); }), HasSubstr("nop #0 → nop #0"));
}

struct Misuse {
  const char* name;
  std::function<OpId(ScheduleBuilder&, BufferId floats, BufferId ints)> action;
  const char* message;
};

class ScheduleBuilderMisuse : public ::testing::TestWithParam<Misuse> {};

TEST_P(ScheduleBuilderMisuse, IsRefusedWithTheValues) {
  ScheduleBuilder b("misuse", 1, 4);
  const BufferId floats = b.buffer("floats", DataType::float32, 8);
  const BufferId ints = b.buffer("ints", DataType::int32, 8);
  EXPECT_THAT(message_of([&] { b.build(GetParam().action(b, floats, ints)); }),
              AllOf(HasSubstr("schedule \"misuse\" of rank 1: "), HasSubstr(GetParam().message)));
}

using B = ScheduleBuilder;
INSTANTIATE_TEST_SUITE_P(
    All, ScheduleBuilderMisuse,
    ::testing::Values(
        Misuse{"NoCompletion", [](B&, BufferId, BufferId) { return kNoOp; }, "there are 0 operations"},
        Misuse{"PeerOutside", [](B& b, BufferId f, BufferId) { return b.send(4, 0, b.whole(f), {}); },
               "send #0 (to rank 4, channel 0): its peer is outside the job; expected a rank from 0 to 3"},
        Misuse{"PeerNegative", [](B& b, BufferId f, BufferId) { return b.recv(-1, 0, b.whole(f), {}); },
               "its peer is outside the job"},
        Misuse{"PeerSelf", [](B& b, BufferId f, BufferId) { return b.recv(1, 0, b.whole(f), {}); },
               "recv #0 (from rank 1, channel 0): its peer is the rank itself"},
        Misuse{"ChannelTooLarge", [](B& b, BufferId f, BufferId) { return b.send(0, 65280, b.whole(f), {}); },
               "channel 65280 of send #0 with rank 0; expected 0 to 65279"},
        Misuse{"ChannelNegative", [](B& b, BufferId f, BufferId) { return b.send(0, -1, b.whole(f), {}); },
               "channel -1"},
        Misuse{"ChannelTwice",
               [](B& b, BufferId f, BufferId) {
                 b.send(0, 7, b.whole(f), {});
                 b.recv(0, 7, b.whole(f), {});
                 return b.send(0, 7, b.whole(f), {});
               },
               "send #0 (to rank 0, channel 7) and send #2 (to rank 0, channel 7) use the same channel"},
        Misuse{"SliceOutside", [](B& b, BufferId f, BufferId) { return b.send(0, 0, {f, 4, 5}, {}); },
               "source is 5 elements from 4 on, outside buffer \"floats\" of 8"},
        Misuse{"SliceOverflows",
               [](B& b, BufferId f, BufferId) { return b.recv(0, 0, {f, 4, ~std::uint64_t{0} - 1}, {}); },
               "outside buffer \"floats\" of 8"},
        Misuse{"NoSuchBuffer", [](B& b, BufferId, BufferId) { return b.send(0, 0, {9, 0, 1}, {}); },
               "names buffer 9 as source; there are 2"},
        Misuse{"ElementsOfNothing", [](B& b, BufferId, BufferId) { return b.send(0, 0, {kNoBuffer, 0, 3}, {}); },
               "moves 3 elements from offset 0 of no buffer"},
        Misuse{"HeaderOfNothing",
               [](B& b, BufferId, BufferId) {
                 const OpId op = b.send(0, 0, {}, {});
                 b.with_header(op);
                 return op;
               },
               "its header belongs to a buffer"},
        Misuse{"ReduceIntoNothing", [](B& b, BufferId f, BufferId) { return b.reduce({}, b.whole(f), ReduceOp::sum, {}); },
               "reduce #0 has no destination"},
        Misuse{"CopyOfNothing", [](B& b, BufferId f, BufferId) { return b.copy(b.whole(f), {}, {}); },
               "copy #0 has no source"},
        Misuse{"SizesDiffer", [](B& b, BufferId f, BufferId) {
                 const BufferId small = b.scratch("small", DataType::float32, 3);
                 return b.copy(b.whole(f), b.whole(small), {});
               },
               "copy #0: source is 3 float32 of \"small\", destination 8 float32 of \"floats\""},
        Misuse{"TypesDiffer",
               [](B& b, BufferId f, BufferId i) { return b.reduce(b.whole(f), b.whole(i), ReduceOp::sum, {}); },
               "must have the same type"},
        Misuse{"Overlap", [](B& b, BufferId f, BufferId) { return b.copy({f, 0, 4}, {f, 3, 4}, {}); },
               "source and destination overlap in buffer \"floats\""},
        Misuse{"HeaderOfACall",
               [](B& b, BufferId, BufferId) {
                 const OpId op = b.call(0, {});
                 b.with_header(op);
                 return op;
               },
               "call #0 cannot carry a header"},
        Misuse{"OverlapInPart",
               [](B& b, BufferId f, BufferId) {
                 const BufferId more = b.scratch("more", DataType::float32, 8);
                 return b.reduce({f, 0, 4}, {more, 0, 4}, {f, 3, 4}, ReduceOp::sum, {});
               },
               "reduce #0: source and destination overlap in buffer"},
        Misuse{"SourceTwice",
               [](B& b, BufferId f, BufferId) { return b.reduce(b.whole(f), b.whole(f), ReduceOp::sum, {}); },
               "reduce #0: source and destination overlap in buffer \"floats\""},
        Misuse{"SecondSourceDiffers",
               [](B& b, BufferId f, BufferId i) {
                 return b.reduce({f, 0, 4}, {f, 4, 4}, {i, 0, 4}, ReduceOp::sum, {});
               },
               "must have the same type"},
        Misuse{"NegativeDelay", [](B& b, BufferId, BufferId) { return b.delay(Duration(-3), {}); },
               "delay #0 lasts -3 ns; expected 0 or more"},
        Misuse{"NeedTooMuch",
               [](B& b, BufferId, BufferId) {
                 const OpId op = b.nop({b.nop({})});
                 b.need(op, Need::count(2)).label(op, "greedy");
                 return op;
               },
               "nop #1 \"greedy\" needs 2 of 1 predecessors; expected 1 to 1"},
        Misuse{"NeedNothing",
               [](B& b, BufferId, BufferId) {
                 const OpId op = b.nop({b.nop({})});
                 b.need(op, Need::count(0));
                 return op;
               },
               "needs 0 of 1"},
        Misuse{"LabelTwice",
               [](B& b, BufferId, BufferId) {
                 const OpId one = b.nop({}), two = b.nop({});
                 b.label(one, "same").label(two, "same");
                 return one;
               },
               "nop #0 \"same\" and nop #1 \"same\" have the same label"},
        Misuse{"AfterWhatIsNotThere", [](B& b, BufferId, BufferId) { return b.nop({5}); }, "there is no operation #5"},
        Misuse{"NeedOfWhatIsNotThere",
               [](B& b, BufferId, BufferId) {
                 b.need(3, Need::any());
                 return kNoOp;
               },
               "there is no operation #3; so far there are 0"},
        Misuse{"WholeOfWhatIsNotThere", [](B& b, BufferId, BufferId) { return b.send(0, 0, b.whole(7), {}); },
               "there is no buffer 7; so far there are 2"}),
    [](const auto& info) { return info.param.name; });

TEST(ScheduleBuilder, ABufferWhoseBytesCannotBeCountedIsRefused) {
  ScheduleBuilder b("large", 0, 1);
  b.scratch("as large as can be", DataType::float64, kMaxBufferBytes / 8);
  for (const std::uint64_t count : {kMaxBufferBytes / 8 + 1, ~std::uint64_t{0} / 8 + 2, ~std::uint64_t{0}}) {
    EXPECT_THAT(message_of([&] { b.buffer("x", DataType::float64, count); }),
                AllOf(HasSubstr("buffer \"x\" of " + std::to_string(count) + " float64"),
                      HasSubstr(std::to_string(kMaxBufferBytes) + " bytes")));
    EXPECT_THROW(b.scratch("x", DataType::float64, count), UsageError);
  }
}

TEST(ScheduleBuilder, MoreOperationsThanCanBeToldApartAreRefusedWithTheirNumber) {
  ScheduleBuilder b("long", 0, 1);
  const Schedule schedule = b.build(b.nop({}));
  check_number_of_ops(schedule, 4294967295);
  EXPECT_THAT(message_of([&] { check_number_of_ops(schedule, 4294967296); }),
              HasSubstr("4294967296 operations; at most 4294967295"));
}

TEST(ScheduleBuilder, RanksAreChecked) {
  EXPECT_THAT(message_of([] { ScheduleBuilder("s", 3, 3); }), HasSubstr("rank 3 of 3 ranks"));
  EXPECT_THAT(message_of([] { ScheduleBuilder("s", -1, 3); }), HasSubstr("rank -1 of 3 ranks"));
  EXPECT_THAT(message_of([] { ScheduleBuilder("s", 0, 0); }), HasSubstr("rank 0 of 0 ranks"));
}

TEST(Schedule, AmongMembersTheirRanksTakeThePlaceOfIts) {
  ScheduleBuilder b("pair", 1, 2);
  const BufferId data = b.buffer("data", DataType::int32, 4);
  const OpId recv = b.recv(0, 3, b.whole(data), {});
  const OpId send = b.send(0, 4, b.whole(data), {recv});
  const Schedule schedule = b.build(send);
  const Schedule members = schedule.among(std::vector{6, 2}, 8);
  EXPECT_EQ(members.rank(), 2);
  EXPECT_EQ(members.ranks(), 8);
  EXPECT_EQ(members.op(recv).peer, 6);
  EXPECT_EQ(members.op(send).peer, 6);
  EXPECT_EQ(members.op(send).channel, 4);
  EXPECT_EQ(schedule.op(recv).peer, 0);
  for (const auto& wrong : {std::vector{6}, std::vector{6, 6}, std::vector{6, 8}, std::vector{-1, 2}}) {
    EXPECT_THROW((void)schedule.among(wrong, 8), UsageError);
  }
}

TEST(Schedule, FindNamesTheLabelThatIsMissing) {
  ScheduleBuilder b("s", 0, 1);
  const Schedule schedule = b.build(b.nop({}));
  EXPECT_THAT(message_of([&] { schedule.find("complete"); }), HasSubstr("no operation labelled \"complete\""));
}

}  // namespace
}  // namespace stretto
