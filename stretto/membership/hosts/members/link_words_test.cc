#include "stretto/membership/hosts/members/link_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stretto {
namespace {

using testing::HasSubstr;

TEST(LinkWords, AReportIsReadAsItWasWritten) {
  const Holding holding{.held = 12, .applied = {{0, 7}, {1'000'000, 5}}, .pending = true};
  const ProcessWords words{.kind = ProcessWords::Kind::report,
                           .report = {.number = 3, .epoch = 2, .holding = holding, .leaving = true}};
  const ProcessWords read = ProcessWords::decoded(words.encoded()).or_throw();
  EXPECT_EQ(read.kind, words.kind);
  EXPECT_EQ(read.report.number, 3u);
  EXPECT_EQ(read.report.epoch, 2u);
  EXPECT_EQ(read.report.holding.held, 12);
  EXPECT_EQ(read.report.holding.applied, holding.applied);
  EXPECT_TRUE(read.report.holding.pending);
  EXPECT_TRUE(read.report.leaving);
}

TEST(LinkWords, AHelloIsReadAsItWasWritten) {
  const ProcessWords words{
      .hello = {.number = 3, .host = "h1", .epoch = 2, .stopped = 1, .terms = {{"model", "m \"1\"\n"}}},
      .words = "a process"};
  const ProcessWords all = ProcessWords::decoded(words.encoded()).or_throw();
  EXPECT_EQ(all.words, "a process");
  const HelloWords& read = all.hello;
  EXPECT_EQ(read.number, 3u);
  EXPECT_EQ(read.host, "h1");
  EXPECT_EQ(read.epoch, 2u);
  EXPECT_EQ(read.stopped, 1u);
  EXPECT_EQ(read.terms, words.hello.terms);
  EXPECT_EQ(ProcessWords::decoded(words.encoded()).or_throw().words, "a process");
}

TEST(LinkWords, AQuestionForABatchIsReadAsItWasWritten) {
  const ProcessWords words{
      .kind = ProcessWords::Kind::take, .batches = 70, .plan = 12'345'678'901'234'567'890u, .taken = 9, .computed = 8};
  const ProcessWords read = ProcessWords::decoded(words.encoded()).or_throw();
  EXPECT_EQ(read.kind, ProcessWords::Kind::take);
  EXPECT_EQ(read.batches, 70u);
  EXPECT_EQ(read.plan, words.plan);
  EXPECT_EQ(read.taken, 9u);
  EXPECT_EQ(read.computed, 8u);
}

TEST(LinkWords, AMastersWordsAreReadAsTheyWereWritten) {
  MasterWords told;
  told.kind = MasterWords::Kind::tell;
  told.content = std::make_shared<const Registered>(Registered{
      .view = {.epoch = 2, .members = {{0, "h1", 4}, {3, "h2", kNoModel}}, .complete = 4, .next_number = 4}});
  EXPECT_EQ(*MasterWords::decoded(told.encoded()).or_throw().content, *told.content);
  EXPECT_EQ(MasterWords::decoded(MasterWords::of_freeze(7).encoded()).or_throw().epoch, 7u);
  for (const std::optional<std::uint64_t> batch : {std::optional<std::uint64_t>(7), {}}) {
    const MasterWords answer = MasterWords::decoded(MasterWords::of_batch(batch, 5).encoded()).or_throw();
    EXPECT_EQ(answer.batch, batch);
    EXPECT_EQ(answer.taken, 5u);
  }
  EXPECT_EQ(MasterWords::decoded(MasterWords::of_refusal("no").encoded()).or_throw().why, "no");
}

TEST(LinkWords, WordsBetweenHostsAreReadAsTheyWereWritten) {
  for (const auto kind : {ProcessWords::Kind::beat, ProcessWords::Kind::has}) {
    EXPECT_EQ(ProcessWords::decoded(ProcessWords::of(kind, 7).encoded()).or_throw().kind, kind);
  }
  EXPECT_EQ(ProcessWords::decoded(ProcessWords::of(ProcessWords::Kind::has, 7).encoded()).or_throw().number, 7u);
  const ProcessWords said{
      .kind = ProcessWords::Kind::publish, .epoch = 3, .words = "10.77.0.1:4711/0", .meeting = "a line"};
  const ProcessWords read = ProcessWords::decoded(said.encoded()).or_throw();
  EXPECT_EQ(read.epoch, 3u);
  EXPECT_EQ(read.words, said.words);
  EXPECT_EQ(read.meeting, said.meeting);
  ProcessWords misses = ProcessWords::of(ProcessWords::Kind::misses, 7);
  misses.epoch = 3;
  const ProcessWords missed = ProcessWords::decoded(misses.encoded()).or_throw();
  EXPECT_EQ(missed.kind, ProcessWords::Kind::misses);
  EXPECT_EQ(missed.number, 7u);
  EXPECT_EQ(missed.epoch, 3u);

  MasterWords meet = MasterWords::of(MasterWords::Kind::meet);
  meet.epoch = 3;
  meet.words = said.words;
  meet.meeting = said.meeting;
  EXPECT_EQ(MasterWords::decoded(meet.encoded()).or_throw().words, said.words);
  EXPECT_EQ(MasterWords::decoded(meet.encoded()).or_throw().meeting, said.meeting);
  MasterWords beat = MasterWords::of(MasterWords::Kind::beat);
  beat.limit = std::chrono::seconds(5);
  beat.patience = std::chrono::minutes(5);
  beat.has_hosts = true;
  EXPECT_TRUE(MasterWords::decoded(beat.encoded()).or_throw().has_hosts);
  EXPECT_EQ(MasterWords::decoded(beat.encoded()).or_throw().limit, std::chrono::seconds(5));
  EXPECT_EQ(MasterWords::decoded(beat.encoded()).or_throw().patience, std::chrono::minutes(5));
  ProcessWords has = ProcessWords::of(ProcessWords::Kind::has, 7);
  has.wish = 2;
  EXPECT_EQ(ProcessWords::decoded(has.encoded()).or_throw().wish, 2);
  const MasterWords lost = MasterWords::decoded(MasterWords::of(MasterWords::Kind::lost, 7).encoded()).or_throw();
  EXPECT_EQ(lost.kind, MasterWords::Kind::lost);
  EXPECT_EQ(lost.number, 7u);
  EXPECT_THAT(MasterWords::decoded(R"({"beat": 0})").error().message, HasSubstr("'beat' is 0"));
}

TEST(LinkWords, WhatARankReportsIsReadAsItWasWritten) {
  const ProcessWords said{.kind = ProcessWords::Kind::result, .words = "{\"rank\": 3}\n"};
  EXPECT_EQ(ProcessWords::decoded(said.encoded()).or_throw().words, said.words);
  EXPECT_EQ(MasterWords::decoded(MasterWords::of(MasterWords::Kind::heard).encoded()).or_throw().kind,
            MasterWords::Kind::heard);
}

TEST(LinkWords, WhatCannotBeReadIsNamed) {
  const auto of_process = [](const std::string& line) { return ProcessWords::decoded(line).error().message; };
  const auto of_master = [](const std::string& line) { return MasterWords::decoded(line).error().message; };
  EXPECT_THAT(of_process("{}"), HasSubstr("none of 'hello', 'report'"));
  EXPECT_THAT(of_process("no JSON"), HasSubstr("no object of JSON"));
  EXPECT_THAT(of_process(R"({"begun": -1})"), HasSubstr("'begun' is -1"));
  EXPECT_THAT(of_process(R"({"report": 1, "number": 2, "held": -2, "pending": true, "leaving": true})"),
              HasSubstr("'held' is -2"));
  EXPECT_THAT(of_master(R"({"tell": "{}"})"), HasSubstr("a view cannot be read"));
  EXPECT_THAT(of_master(R"({"refuse": 3})"), HasSubstr("expected a text"));
}

}  // namespace
}  // namespace stretto
