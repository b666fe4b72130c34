#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stretto/membership/hosts/members/link_words.h"
#include "stretto/membership/hosts/peer_words.h"
#include "stretto/transport/hosts/hello.h"
#include "stretto/transport/job_memory.h"
#include "tests/fuzz/targets.h"

namespace stretto::fuzz {
namespace {

/// The first byte says whether the door's token is the hello's.
Target hello_of_a_peer() {
  const Token token{std::byte{7}}, another{std::byte{8}};
  Target target{.name = "hello of a peer"};
  for (const auto use : {Hello::Use::messages, Hello::Use::meeting, Hello::Use::beats, Hello::Use::member}) {
    const Hello::Bytes bytes =
        Hello{.use = use, .from = 2, .to = 1, .ranks = 3, .version = std::string(63, '1')}.encoded(token);
    for (const char same : {'\1', '\0'})
      target.inputs.push_back(same + std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  target.read = [token, another](const std::string& input) {
    Hello::Bytes bytes{};
    if (input.size() != 1 + bytes.size()) return false;
    std::memcpy(bytes.data(), &input[1], bytes.size());
    const bool same = (input[0] & 1) != 0;
    const auto hello = Hello::decoded(bytes, same ? token : another);
    if (!hello) return !same && hello.error().message == "it is of another job: its token is another";
    // Who is let in is a rank, and knows the token.
    const bool knows = std::memcmp(&bytes[sizeof(std::uint64_t)], (same ? token : another).data(), token.size()) == 0;
    if (!knows || hello->from < 0 || hello->from >= hello->ranks || hello->to < 0 || hello->to >= hello->ranks) abort();
    return hello->version.size() < 64;
  };
  return target;
}

/// Words that one rank sends another: what is read is written and read again as it is. `look` looks whether the others
/// can do with it what they do.
template <class Words, class... Limits>
Target words_of_a_peer(const char* name, const std::vector<Words>& words, const std::function<bool(const Words&)>& look,
                       Limits... limits) {
  Target target{.name = name};
  for (const Words& one : words) target.inputs.push_back(one.encoded());
  target.read = [look, limits...](const std::string& input) {
    const auto read = Words::decoded(input, limits...);
    if (!read) return false;
    const std::string line = read->encoded();
    const auto again = Words::decoded(line, limits...);
    if (!again || again->encoded() != line || !look(*read)) std::abort();
    return true;
  };
  return target;
}

Target arrival_of_a_peer() {
  return words_of_a_peer<ArrivalWords>(
      "arrival of a peer",
      {{.host = "boot 4 1 0", .name = "h1", .process = 7, .address = {asio::ip::make_address("fd77::1"), 4711}}},
      [](const ArrivalWords& words) { return words.process > 0 && words.address.port() > 0; });
}

Target meeting_of_a_peer() {
  using Kind = MeetingWords::Kind;
  constexpr int kRanks = 3;
  const auto address = asio::ip::make_address("10.77.0.1");
  return words_of_a_peer<MeetingWords>(
      "word of a meeting",
      {{.kind = Kind::come},
       {.kind = Kind::another},
       {.kind = Kind::refused, .why = Error{Errc::io, "none", 1}},
       {.kind = Kind::met,
        .meeting = "first",
        .ranks = {{0, "h1", {address, 1}, "1.13.1"}, {1, "h2", {address, 2}, "no"}, {0, "h1", {address, 3}, "no"}}}},
      [](const MeetingWords& words) {
        if (words.kind == Kind::refused) return words.why->rank < kRanks && name_of(words.why->code) != nullptr;
        if (words.kind != Kind::met) return true;
        const auto known = [](const MeetingWords::Rank& rank) { return rank.host >= 0 && rank.host < kRanks; };
        return words.ranks.size() == kRanks && std::ranges::all_of(words.ranks, known);
      },
      kRanks);
}

Target request_of_a_peer() {
  using Kind = RequestWords::Kind;
  return words_of_a_peer<RequestWords>(
      "request of a peer",
      {{.kind = Kind::add, .id = 3, .counter = 16, .amount = 5},
       {.kind = Kind::report, .report = "{\"losses\": []}"},
       {.kind = Kind::left}},
      [](const RequestWords& words) { return words.counter >= 0 && words.counter < JobMemory::kNumCounters; });
}

Target counter_of_a_peer() {
  return words_of_a_peer<CounterWords>("answer about a counter", {{.id = 3, .was = 12}},
                                       [](const CounterWords&) { return true; });
}

/// A rule learns each fact, and acts on it.
Target news_of_a_peer() {
  using Kind = SpeakerWords::Kind;
  using Fact = LivenessFact::Kind;
  const Members members({0, 1, 0, 2});
  return words_of_a_peer<SpeakerWords>(
      "news of a peer",
      {{.kind = Kind::beat},
       {.kind = Kind::goodbye},
       {.kind = Kind::heard},
       {.kind = Kind::fact, .fact = {Fact::left, 3}},
       {.kind = Kind::fact, .fact = {Fact::ended, 3, 0, "rank 3 stopped the job", true}},
       {.kind = Kind::fact, .fact = {Fact::unheard, 1, 2}},
       {.kind = Kind::fact, .fact = {Fact::cut, 2, 1}}},
      [members](const SpeakerWords& words) {
        if (words.kind != Kind::fact) return true;
        LivenessRule rule(members, 0, std::chrono::seconds(10), TimePoint{});
        const TimePoint late{std::chrono::seconds(30)};
        rule.connected(1, TimePoint{});
        rule.learn(words.fact, 1, TimePoint{});
        for (const TimePoint now : {TimePoint{}, late}) {
          while (const auto action = rule.next(now)) {
            if (action->host < 0 || action->host >= members.hosts() || action->fact.a < 0) return false;
          }
        }
        return true;
      },
      members.size(), members.hosts());
}

Target process_of_a_master() {
  using Kind = ProcessWords::Kind;
  const Holding holding{.held = 12, .applied = {{0, 7}, {3, 5}}, .pending = true};
  return words_of_a_peer<ProcessWords>(
      "word of a member",
      {{.kind = Kind::hello, .hello = {.number = 3, .host = "h1", .epoch = 2, .stopped = 1, .terms = {{"model", "m"}}}},
       {.kind = Kind::report, .report = {.number = 3, .epoch = 2, .holding = holding, .leaving = true}},
       {.kind = Kind::begun, .epoch = 2},
       {.kind = Kind::done, .epoch = 2},
       {.kind = Kind::leaving},
       {.kind = Kind::take, .batches = 100}},
      [](const ProcessWords& words) { return words.report.holding.held >= kNoModel; });
}

Target master_of_a_process() {
  MasterWords content;
  content.kind = MasterWords::Kind::tell;
  content.content = std::make_shared<const Registered>(Registered{
      {.epoch = 2, .members = {{0, "h1", 4}, {3, "h2", kNoModel}}, .complete = 4, .next_number = 4, .rows = 1},
      JobEnd::none});
  return words_of_a_peer<MasterWords>("word of a master",
                                      {MasterWords::of_freeze(2), content, MasterWords::of_batch(7, 3),
                                       MasterWords::of_batch({}, 3), MasterWords::of_refusal("model is m here")},
                                      [](const MasterWords& words) {
                                        if (words.content == nullptr) return true;
                                        const View& view = words.content->view;
                                        return std::ranges::all_of(view.members, [&](const PlacedMember& member) {
                                          return view.has(member.number) && member.number < view.next_number;
                                        });
                                      });
}

Target place_of_a_meeting() {
  const Token token{std::byte{7}};
  return words_of_a_peer<MeetingPlace>(
      "published address",
      {{.host = "h1", .port = "4711"},
       {.host = "10.77.0.1", .port = "4711", .token = token},
       {.host = "fd77::1", .port = "1", .token = token}},
      [](const MeetingPlace& place) { return !place.host.empty() && !place.port.empty(); });
}

}  // namespace

std::vector<Target> targets_between_hosts() {
  return {hello_of_a_peer(), arrival_of_a_peer(),   meeting_of_a_peer(),   request_of_a_peer(), counter_of_a_peer(),
          news_of_a_peer(),  process_of_a_master(), master_of_a_process(), place_of_a_meeting()};
}

}  // namespace stretto::fuzz
