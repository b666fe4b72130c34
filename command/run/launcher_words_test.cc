#include "command/run/launcher_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace stretto::command {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(LauncherWords, AJobIsReadAsItWasWritten) {
  const std::string odd("a\xff\n'\"", 5);
  CallerWords words{.kind = CallerWords::Kind::job, .environment = {"A=b", odd + "=1"}, .folder = "/home/" + odd};
  words.job.program = {"./mine", "", odd};
  words.job.is_own = true;
  words.job.ranks = 7;
  words.job.here = 3;
  words.job.on_host = {.first = 4, .host = 2, .hosts = 3, .run_id = "stretto-run-1"};
  words.job.job = JobAddress{.host = "10.77.0.1", .port = 29400};
  words.job.restarts = 2;
  words.job.no_return = words.job.tag = true;
  words.job.evict = std::chrono::seconds(3);
  words.job.grace = std::chrono::milliseconds(1500);
  words.job.liveness = std::chrono::seconds(2);
  const std::string line = words.encoded();
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  const CallerWords read = CallerWords::decoded(line).or_throw();
  EXPECT_EQ(read.kind, CallerWords::Kind::job);
  EXPECT_EQ(read.environment, words.environment);
  EXPECT_EQ(read.folder, words.folder);
  EXPECT_EQ(read.job.program, words.job.program);
  EXPECT_TRUE(read.job.is_own);
  EXPECT_EQ(read.job.ranks, 7);
  EXPECT_EQ(read.job.here, 3);
  EXPECT_EQ(read.job.on_host.first, 4);
  EXPECT_EQ(read.job.on_host.host, 2);
  EXPECT_EQ(read.job.on_host.hosts, 3);
  EXPECT_EQ(read.job.on_host.run_id, "stretto-run-1");
  EXPECT_EQ(read.job.job->to_string(), "10.77.0.1:29400");
  EXPECT_EQ(read.job.restarts, 2);
  EXPECT_TRUE(read.job.no_return);
  EXPECT_TRUE(read.job.tag);
  EXPECT_EQ(read.job.evict, words.job.evict);
  EXPECT_EQ(read.job.grace, words.job.grace);
  EXPECT_EQ(read.job.liveness, words.job.liveness);
}

TEST(LauncherWords, TheOthersAreReadAsTheyWereWritten) {
  const PlaceOfFirst place{.address = "fd77::1", .master_port = 29500, .meeting_port = 4711};
  const auto begin = CallerWords::decoded(CallerWords{.kind = CallerWords::Kind::begin, .place = place}.encoded());
  EXPECT_EQ(begin->place.address, place.address);
  EXPECT_EQ(begin->place.master_port, place.master_port);
  EXPECT_EQ(begin->place.meeting_port, place.meeting_port);
  EXPECT_EQ(HostWords::decoded(HostWords{.kind = HostWords::Kind::ready, .place = place}.encoded())->place.address,
            place.address);
  const auto signal = CallerWords::decoded(CallerWords{.kind = CallerWords::Kind::signal, .number = 15}.encoded());
  EXPECT_EQ(signal->kind, CallerWords::Kind::signal);
  EXPECT_EQ(signal->number, 15);
  for (const auto kind : {CallerWords::Kind::end, CallerWords::Kind::beat}) {
    EXPECT_EQ(CallerWords::decoded(CallerWords{.kind = kind}.encoded())->kind, kind);
  }
  using Kind = HostWords::Kind;
  for (const auto kind : {Kind::refused, Kind::out, Kind::errors, Kind::failed, Kind::ended, Kind::beat}) {
    const HostWords words{.kind = kind, .words = std::string("\xff\0\n", 3), .number = kind == Kind::failed ? 137 : 0};
    const auto read = HostWords::decoded(words.encoded());
    EXPECT_EQ(read->kind, kind);
    EXPECT_EQ(read->number, words.number);
    const bool has_words = kind == Kind::refused || kind == Kind::out || kind == Kind::errors;
    EXPECT_EQ(read->words, has_words ? words.words : "");
  }
}

TEST(LauncherWords, OthersAreRefused) {
  for (const char* line : {"", "{}", "[]", R"({"beat":1})", R"({"signal":900})", R"({"program":"","ranks":-1})"}) {
    EXPECT_FALSE(CallerWords::decoded(line).ok()) << line;
  }
  for (const char* line : {"Welcome", "{}", R"({"failed":"x"})", R"({"ready":true,"address":"a","master":-1})"}) {
    EXPECT_FALSE(HostWords::decoded(line).ok()) << line;
  }
}

TEST(LauncherWords, ComeByWholeLines) {
  std::string bytes = "one\n\ntw", line;
  EXPECT_TRUE(take_line(bytes, line));
  EXPECT_EQ(line, "one");
  EXPECT_TRUE(take_line(bytes, line));
  EXPECT_EQ(line, "");
  EXPECT_FALSE(take_line(bytes, line));
  EXPECT_EQ(bytes, "tw");
}

}  // namespace
}  // namespace stretto::command
