#include "stretto/membership/hosts/peer_words.h"

#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "stretto/membership/hosts/bulletin.h"
#include "stretto/membership/hosts/fields.h"
#include "stretto/transport/job_memory.h"

namespace stretto {
namespace {

using asio::ip::tcp;
using nlohmann::json;

constexpr int kMostInt = std::numeric_limits<int>::max();
constexpr std::int64_t kMostNanoseconds = std::int64_t{1} << 60;  // 36 years: sums of a few are numbers of 64 bits

tcp::endpoint endpoint_in(Fields& fields) {
  asio::error_code wrong;
  const std::string written = fields.words("address");
  const auto address = asio::ip::make_address(written, wrong);
  if (wrong) fields.fault("'address' is none of IPv4 or IPv6");
  return {address, fields.number("port", std::uint16_t{1}, std::numeric_limits<std::uint16_t>::max())};
}

Duration time_in(Fields& fields, const char* name, bool may_be_negative = false) {
  return Duration(fields.number(name, may_be_negative ? -kMostNanoseconds : 0, kMostNanoseconds));
}

BeatTimes beat_times_in(Fields& fields) {
  BeatTimes times{.sent = {time_in(fields, "beat")}};
  if (fields.has("echo")) {
    times.echo = BeatTimes::Echo{.sent = {time_in(fields, "echo")}, .held = time_in(fields, "held")};
  }
  if (fields.has("ahead")) {
    times.reading = ClockReading{.ahead = time_in(fields, "ahead", true), .error = time_in(fields, "error")};
  }
  return times;
}

json json_of(const BeatTimes& times) {
  json object{{"beat", times.sent.since_start.count()}};
  if (times.echo) {
    object["echo"] = times.echo->sent.since_start.count();
    object["held"] = times.echo->held.count();
  }
  if (times.reading) {
    object["ahead"] = times.reading->ahead.count();
    object["error"] = times.reading->error.count();
  }
  return object;
}

void put(json& object, const tcp::endpoint& endpoint) {
  object["address"] = endpoint.address().to_string();
  object["port"] = endpoint.port();
}

}  // namespace

std::string ArrivalWords::encoded() const {
  json object{{"host", host}, {"name", name}, {"process", process}, {"settings", settings}, {"offer", offer}};
  put(object, address);
  return line_of(object);
}

Result<ArrivalWords> ArrivalWords::decoded(std::string_view line) {
  Fields fields(line);
  ArrivalWords words;
  words.host = fields.words("host");
  words.name = fields.words("name");
  words.process = fields.number("process", 1, kMostInt);
  words.address = endpoint_in(fields);
  words.settings = fields.texts("settings");
  words.offer = fields.words("offer");
  return fields.end(std::move(words));
}

std::string MeetingWords::encoded() const {
  switch (kind) {
    case Kind::come: return line_of({{"come", true}});
    case Kind::another: return line_of({{"another", true}});
    case Kind::refused:
      return line_of({{"refused", why->message}, {"code", static_cast<int>(why->code)}, {"rank", why->rank}});
    case Kind::met: break;
  }
  json list = json::array();
  for (const Rank& rank : ranks) {
    json one{{"host", rank.host}, {"name", rank.name}, {"offer", rank.offer}};
    put(one, rank.address);
    list.push_back(std::move(one));
  }
  return line_of({{"meeting", meeting}, {"ranks", std::move(list)}});
}

Result<MeetingWords> MeetingWords::decoded(std::string_view line, int ranks) {
  Fields fields(line);
  MeetingWords words;
  if (fields.has("come")) return fields.end(std::move(words));
  if (fields.has("another")) {
    words.kind = Kind::another;
  } else if (fields.has("refused")) {
    words.kind = Kind::refused;
    const int rank = fields.number("rank", -1, kMostInt);
    words.why = Error{.code = static_cast<Errc>(fields.number("code", 0, static_cast<int>(Errc::io))),
                      .message = fields.words("refused"),
                      .rank = rank < ranks ? rank : -1};  // rank 0 may have another number of ranks
  } else {
    words.kind = Kind::met;
    words.meeting = fields.words("meeting");
    fields.list("ranks", ranks, [&](Fields& one) {
      words.ranks.push_back({.host = one.number("host", 0, ranks - 1),
                             .name = one.words("name"),
                             .address = endpoint_in(one),
                             .offer = one.words("offer")});
    });
  }
  return fields.end(std::move(words));
}

std::string RequestWords::encoded() const {
  switch (kind) {
    case Kind::add: return line_of({{"add", counter}, {"by", amount}, {"id", id}});
    case Kind::report: return line_of({{"report", report}});
    case Kind::left: break;
  }
  return line_of({{"left", true}});
}

Result<RequestWords> RequestWords::decoded(std::string_view line) {
  Fields fields(line);
  RequestWords words;
  if (fields.has("add")) {
    words.kind = Kind::add;
    words.counter = fields.number("add", 0, JobMemory::kNumCounters - 1);
    words.amount = fields.count("by");
    words.id = fields.count("id");
  } else if (fields.has("report")) {
    words.kind = Kind::report;
    words.report = fields.words("report");
  } else if (!fields.has("left")) {
    fields.fault("it has none of 'add', 'report' and 'left'");
  }
  return fields.end(std::move(words));
}

std::string CounterWords::encoded() const {
  return line_of({{"was", was}, {"id", id}});
}

Result<CounterWords> CounterWords::decoded(std::string_view line) {
  Fields fields(line);
  CounterWords words;
  words.id = fields.count("id");
  words.was = fields.count("was");
  return fields.end(words);
}

std::string SpeakerWords::encoded() const {
  switch (kind) {
    case Kind::beat: return line_of(json_of(times));
    case Kind::goodbye: return line_of({{"goodbye", true}});
    case Kind::heard: return line_of({{"heard", true}});
    case Kind::fact: break;
  }
  return line_of({{"fact", static_cast<int>(fact.kind)},
                  {"a", fact.a},
                  {"b", fact.b},
                  {"why", fact.why},
                  {"aborted", fact.aborted}});
}

Result<SpeakerWords> SpeakerWords::decoded(std::string_view line, int ranks, int hosts) {
  Fields fields(line);
  SpeakerWords words;
  if (fields.has("fact")) {
    words.kind = Kind::fact;
    const int kind = fields.number("fact", 0, static_cast<int>(LivenessFact::Kind::cut));
    const bool of_rank = kind <= static_cast<int>(LivenessFact::Kind::ended);
    words.fact = {.kind = static_cast<LivenessFact::Kind>(kind),
                  .a = fields.number("a", 0, (of_rank ? ranks : hosts) - 1),
                  .b = fields.number("b", 0, of_rank ? 0 : hosts - 1),
                  .why = fields.words("why"),
                  .aborted = fields.flag("aborted")};
  } else if (fields.has("goodbye")) {
    words.kind = Kind::goodbye;
  } else if (fields.has("heard")) {
    words.kind = Kind::heard;
  } else if (fields.has("beat")) {
    words.times = beat_times_in(fields);
  } else {
    fields.fault("it has none of 'beat', 'fact', 'goodbye' and 'heard'");
  }
  return fields.end(std::move(words));
}

std::string MeetingPlace::address() const {
  return text(host.find(':') == std::string::npos ? host : text('[', host, ']'), ':', port);
}

Result<MeetingPlace> MeetingPlace::decoded(std::string_view words) {
  const auto wrong = [](const std::string& what) {
    return Error{Errc::bad_input, text(kName, " cannot be read: ", what)};
  };
  if (words.size() > Bulletin::kMostBytes) return wrong(text("it has ", words.size(), " bytes"));
  const auto slash = words.find('/');
  const std::string_view address = words.substr(0, slash);
  const auto colon = address.rfind(':');
  std::string_view host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string_view port = colon == std::string_view::npos ? std::string_view() : address.substr(colon + 1);
  std::uint16_t number = 0;
  const auto [end, fault] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool is_port = fault == std::errc() && end == port.data() + port.size() && number > 0;
  if (!is_port || host.empty() || host.find_first_of("[]") != std::string_view::npos) {
    return wrong("expected host:port, with a port from 1 to 65535");
  }
  MeetingPlace place{.host = std::string(host), .port = std::string(port)};
  if (slash == std::string_view::npos) return place;
  const auto token = token_of(std::string(words.substr(slash + 1)));
  if (!token) return wrong(token.error().message);
  place.token = *token;
  return place;
}

}  // namespace stretto
