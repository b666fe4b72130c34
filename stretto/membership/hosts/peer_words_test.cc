#include "stretto/membership/hosts/peer_words.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stretto/membership/hosts/bulletin.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using asio::ip::make_address;

/// A line, and the error that it is read with.
struct Bad {
  std::string line;
  std::string why;
};

/// That words are written and read as they are, and that each of `bad` is refused with its error.
template <class Words, class... Limits>
void expect_words(const std::vector<Words>& good, const std::vector<Bad>& bad, Limits... limits) {
  for (const Words& words : good) {
    const std::string line = words.encoded();
    const auto read = Words::decoded(line, limits...);
    EXPECT_TRUE(read) << line << ": " << read.error().message;
    if (read) {
      EXPECT_EQ(read->encoded(), line);
    }
  }
  for (const Bad& one : bad) {
    const auto read = Words::decoded(one.line, limits...);
    ASSERT_FALSE(read) << one.line;
    EXPECT_EQ(read.error().code, Errc::bad_input);
    EXPECT_EQ(read.error().message, text(Words::kName, " cannot be read: ", one.why)) << one.line;
  }
}

TEST(PeerWords, OfAnArrival) {
  const std::string come = R"({"host": "a", "name": "b", "process": 1, "address": "::1", "port": 1)";
  expect_words<ArrivalWords>(
      {{.host = "boot 4 1 0",
        .name = "h1",
        .process = 7,
        .address = {make_address("10.77.0.1"), 4711},
        .settings = {{"between", "auto"}, {"liveness", "10s"}},
        .offer = "1.13.1"},
       {.host = "", .name = "h\n2", .process = 2147483647, .address = {make_address("fd77::1"), 65535}}},
      {
          {"", "it is no object of JSON"},
          {"[1]", "it is no object of JSON"},
          {R"({"host": )", "it is no object of JSON"},
          {"{\"host\": \"\xff\"}", "it is no object of JSON"},
          {"{}", "it lacks 'host'"},
          {R"({"host": 7})", "'host' is 7; expected a text"},
          {R"({"host": "a", "name": ["b"]})", "'name' is a list of 1; expected a text"},
          {R"({"host": "a", "name": null})", "'name' is of type null; expected a text"},
          {R"({"host": "a", "name": "b", "process": 0})",
           "'process' is 0; expected a whole number from 1 to 2147483647"},
          {R"({"host": "a", "name": "b", "process": 1, "address": "h1"})", "'address' is none of IPv4 or IPv6"},
          {R"({"host": "a", "name": "b", "process": 1, "address": "::1", "port": 65536})",
           "'port' is 65536; expected a whole number from 1 to 65535"},
          {come + "}", "it lacks 'settings'"},
          {come + R"(, "settings": {}})", "it lacks 'offer'"},
          {come + R"(, "settings": ["tcp"]})", "'settings' is a list of 1; expected texts by their names"},
          {come + R"(, "settings": {"a": "b", "liveness": 10}})", "settings: 'liveness' is 10; expected a text"},
      });
}

TEST(PeerWords, OfAMeeting) {
  using Kind = MeetingWords::Kind;
  const std::string whole = R"({"host": 0, "name": "a", "address": "::1", "port": 1, "offer": "no"})";
  expect_words<MeetingWords>(
      {{.kind = Kind::come},
       {.kind = Kind::another},
       {.kind = Kind::refused, .why = Error{Errc::io, "as this test wants it", 1}},
       {.kind = Kind::met,
        .meeting = "first",
        .ranks = {{0, "h1", {make_address("::1"), 1}, "1.13.1"}, {1, "h2", {make_address("127.0.0.1"), 2}, "no"}}}},
      {
          {"1", "it is no object of JSON"},
          {"{}", "it lacks 'meeting'"},
          {R"({"refused": "so", "rank": 0, "code": 7})", "'code' is 7; expected a whole number from 0 to 6"},
          {R"({"refused": true, "rank": 0, "code": 0})", "'refused' is true; expected a text"},
          {R"({"refused": "so", "code": 0, "rank": -2})",
           "'rank' is -2; expected a whole number from -1 to 2147483647"},
          {R"({"meeting": "m", "ranks": {}})", "'ranks' is of type object; expected a list of 2"},
          {R"({"meeting": "m", "ranks": []})", "'ranks' is a list of 0; expected a list of 2"},
          {R"({"meeting": "m", "ranks": [1, 2]})", "ranks[0]: it is no object of JSON"},
          {text(R"({"meeting": "m", "ranks": [)", whole,
                R"(, {"host": 2, "name": "b", "address": "::1", "port": 1}]})"),
           "ranks[1]: 'host' is 2; expected a whole number from 0 to 1"},
      },
      2);
  const auto of_more = MeetingWords::decoded(R"({"refused": "so", "code": 0, "rank": 2})", 2);
  EXPECT_EQ(of_more.value().why->rank, -1) << "rank 0's job has more ranks";
}

TEST(PeerWords, OfARequest) {
  using Kind = RequestWords::Kind;
  const std::string range = "expected a whole number from 0 to ";
  expect_words<RequestWords>({{.kind = Kind::add, .id = ~0ull, .counter = 16, .amount = ~0ull},
                              {.kind = Kind::report, .report = "{\"losses\": [\n]}"},
                              {.kind = Kind::left}},
                             {
                                 {"{}", "it has none of 'add', 'report' and 'left'"},
                                 {R"({"add": 17, "by": 1, "id": 1})", "'add' is 17; " + range + "16"},
                                 {R"({"add": -1, "by": 1, "id": 1})", "'add' is -1; " + range + "16"},
                                 {R"({"add": 1e300, "by": 1, "id": 1})", "'add' is 1e+300; " + range + "16"},
                                 {R"({"add": 1.0, "by": 1, "id": 1})", "'add' is 1.0; " + range + "16"},
                                 {R"({"add": 1, "by": 18446744073709551616, "id": 1})",
                                  "'by' is 1.8446744073709552e+19; " + range + "18446744073709551615"},
                                 {R"({"add": 1, "by": 1})", "it lacks 'id'"},
                                 {R"({"report": {}})", "'report' is of type object; expected a text"},
                             });
}

TEST(PeerWords, OfACounter) {
  expect_words<CounterWords>(
      {{.id = 1, .was = ~0ull}, {}},
      {{R"({"id": 1})", "it lacks 'was'"},
       {R"({"id": "1", "was": 1})", "'id' is of type string; expected a whole number from 0 to 18446744073709551615"}});
}

TEST(PeerWords, OfSpeakers) {
  using Kind = SpeakerWords::Kind;
  using Fact = LivenessFact::Kind;
  expect_words<SpeakerWords>(
      {{.kind = Kind::beat, .times = {.sent = {7ns}}},
       {.kind = Kind::beat,
        .times = {.sent = {std::chrono::years(1)},
                  .echo = BeatTimes::Echo{.sent = {3ns}, .held = 2ns},
                  .reading = ClockReading{.ahead = -5ns, .error = 1ns}}},
       {.kind = Kind::goodbye},
       {.kind = Kind::heard},
       {.kind = Kind::fact, .fact = {Fact::ended, 3, 0, "rank 3 stopped the job", true}},
       {.kind = Kind::fact, .fact = {Fact::cut, 0, 1}}},
      {
          {"{}", "it has none of 'beat', 'fact', 'goodbye' and 'heard'"},
          {R"({"beat": true})", "'beat' is true; expected a whole number from 0 to 1152921504606846976"},
          {R"({"beat": -1})", "'beat' is -1; expected a whole number from 0 to 1152921504606846976"},
          {R"({"beat": 1, "echo": 1})", "it lacks 'held'"},
          {R"({"beat": 1, "ahead": 1})", "it lacks 'error'"},
          {R"({"beat": 1, "ahead": -1152921504606846977, "error": 0})",
           "'ahead' is -1152921504606846977; expected a whole number from -1152921504606846976 to 1152921504606846976"},
          {R"({"fact": 4, "a": 0, "b": 0, "why": "", "aborted": false})",
           "'fact' is 4; expected a whole number from 0 to 3"},
          {R"({"fact": 1, "a": 4, "b": 0, "why": "", "aborted": false})",
           "'a' is 4; expected a whole number from 0 to 3"},
          {R"({"fact": 1, "a": 3, "b": 1, "why": "", "aborted": false})",
           "'b' is 1; expected a whole number from 0 to 0"},
          {R"({"fact": 2, "a": 2, "b": 0, "why": "", "aborted": false})",
           "'a' is 2; expected a whole number from 0 to 1"},
          {R"({"fact": 3, "a": 1, "b": -1, "why": "", "aborted": false})",
           "'b' is -1; expected a whole number from 0 to 1"},
          {R"({"fact": 0, "a": 0, "b": 0, "why": "", "aborted": 0})", "'aborted' is 0; expected true or false"},
      },
      /*ranks=*/4, /*hosts=*/2);
}

TEST(PeerWords, OfABulletin) {
  const Token token = new_token();
  expect_words<MeetingPlace>({{.host = "h1", .port = "4711"},
                              {.host = "10.77.0.1", .port = "4711", .token = token},
                              {.host = "fd77::1", .port = "1", .token = token}},
                             {
                                 {"", "expected host:port, with a port from 1 to 65535"},
                                 {"h1", "expected host:port, with a port from 1 to 65535"},
                                 {":4711", "expected host:port, with a port from 1 to 65535"},
                                 {"[]:4711", "expected host:port, with a port from 1 to 65535"},
                                 {"[h1:4711", "expected host:port, with a port from 1 to 65535"},
                                 {"h1:0", "expected host:port, with a port from 1 to 65535"},
                                 {"h1:65536", "expected host:port, with a port from 1 to 65535"},
                                 {"h1:ssh", "expected host:port, with a port from 1 to 65535"},
                                 {"h1:", "expected host:port, with a port from 1 to 65535"},
                                 {"h1:/" + digits_of(token), "expected host:port, with a port from 1 to 65535"},
                                 {"h1:4711/12", "a token of 32 hexadecimal digits was expected"},
                                 {std::string(Bulletin::kMostBytes, 'h') + ":1", "it has 1002 bytes"},
                             });
}

}  // namespace
}  // namespace stretto
