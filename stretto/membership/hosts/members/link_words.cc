#include "stretto/membership/hosts/members/link_words.h"

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "stretto/membership/hosts/fields.h"

namespace stretto {
namespace {

constexpr RoundsHeld kMostHeld = std::numeric_limits<RoundsHeld>::max();
constexpr int kMostMilliseconds = 24 * 3600 * 1000;
constexpr int kMostMembers = 1 << 20;  // that a job has ever had

/// By their numbers, as texts: names of JSON are no numbers.
nlohmann::json json_of(const BatchesApplied& applied) {
  auto list = nlohmann::json::array();
  for (const auto& [member, batches] : applied) list.push_back({{"of", member}, {"batches", batches}});
  return list;
}

template <class Value>
nlohmann::json json_of(const std::vector<Value>& values) {
  auto list = nlohmann::json::array();
  for (const Value& value : values) list.push_back({{"is", value}});
  return list;
}

}  // namespace

std::string ProcessWords::encoded() const {
  switch (kind) {
    case Kind::hello: {
      nlohmann::json object{{"hello", hello.number}, {"process", words}, {"host", hello.host},
                            {"epoch", hello.epoch},  {"taken", taken},   {"terms", hello.terms}};
      if (hello.stopped) object["stopped"] = *hello.stopped;
      return line_of(object);
    }
    case Kind::report:
      return line_of({{"report", report.epoch},
                      {"number", report.number},
                      {"held", report.holding.held},
                      {"applied", json_of(report.holding.applied)},
                      {"members", report.holding.applied.size()},
                      {"pending", report.holding.pending},
                      {"beside", report.holding.beside},
                      {"leaving", report.leaving},
                      {"gives", report.gives}});
    case Kind::begun: return line_of({{"begun", epoch}});
    case Kind::done: return line_of({{"done", epoch}});
    case Kind::leaving: return line_of({{"leaving", true}});
    case Kind::waits: return line_of({{"waits", true}});
    case Kind::goes_on: return line_of({{"waits", false}});
    case Kind::take: return line_of({{"take", batches}, {"plan", plan}, {"taken", taken}, {"computed", computed}});
    case Kind::come: return line_of({{"come", wish.value_or(-1)}});
    case Kind::ended: return line_of({{"ended", number}});
    case Kind::look: return line_of({{"look", true}});
    case Kind::beat: return line_of({{"beat", true}});
    case Kind::has: return line_of({{"has", number}, {"place", wish.value_or(-1)}});
    case Kind::publish: return line_of({{"publish", words}, {"epoch", epoch}, {"of", meeting}});
    case Kind::misses: return line_of({{"misses", number}, {"epoch", epoch}});
    case Kind::result: return line_of({{"result", words}});
    case Kind::send: break;
  }
  return line_of({{"send", number}});
}

Result<ProcessWords> ProcessWords::decoded(std::string_view line) {
  Fields fields(line);
  ProcessWords words;
  if (fields.has("hello")) {
    words.hello = {.number = fields.count("hello"),
                   .host = fields.words("host"),
                   .epoch = fields.count("epoch"),
                   .terms = fields.texts("terms")};
    words.words = fields.words("process");
    words.taken = fields.count("taken");
    if (fields.has("stopped")) words.hello.stopped = fields.count("stopped");
  } else if (fields.has("report")) {
    words.kind = Kind::report;
    words.report = {.number = fields.count("number"), .epoch = fields.count("report")};
    words.report.holding.held = fields.number("held", kNoModel, kMostHeld);
    words.report.holding.pending = fields.flag("pending");
    words.report.holding.beside = fields.count("beside");
    words.report.leaving = fields.flag("leaving");
    words.report.gives = fields.flag("gives");
    fields.list("applied", fields.number("members", 0, kMostMembers),
                [&](Fields& one) { words.report.holding.applied[one.count("of")] = one.count("batches"); });
  } else if (fields.has("begun")) {
    words.kind = Kind::begun;
    words.epoch = fields.count("begun");
  } else if (fields.has("done")) {
    words.kind = Kind::done;
    words.epoch = fields.count("done");
  } else if (fields.has("leaving")) {
    words.kind = Kind::leaving;
  } else if (fields.has("waits")) {
    words.kind = fields.flag("waits") ? Kind::waits : Kind::goes_on;
  } else if (fields.has("take")) {
    words.kind = Kind::take;
    words.batches = fields.count("take");
    words.plan = fields.count("plan");
    words.taken = fields.count("taken");
    words.computed = fields.count("computed");
  } else if (fields.has("come")) {
    words.kind = Kind::come;
    const int wish = fields.number("come", -1, kMostMembers);
    if (wish >= 0) words.wish = wish;
  } else if (fields.has("ended")) {
    words.kind = Kind::ended;
    words.number = fields.count("ended");
  } else if (fields.has("look")) {
    words.kind = Kind::look;
  } else if (fields.has("send")) {
    words.kind = Kind::send;
    words.number = fields.count("send");
  } else if (fields.has("beat")) {
    words.kind = Kind::beat;
  } else if (fields.has("has")) {
    words.kind = Kind::has;
    words.number = fields.count("has");
    const int place = fields.number("place", -1, kMostMembers);
    if (place >= 0) words.wish = place;
  } else if (fields.has("publish")) {
    words.kind = Kind::publish;
    words.words = fields.words("publish");
    words.meeting = fields.words("of");
    words.epoch = fields.count("epoch");
  } else if (fields.has("misses")) {
    words.kind = Kind::misses;
    words.number = fields.count("misses");
    words.epoch = fields.count("epoch");
  } else if (fields.has("result")) {
    words.kind = Kind::result;
    words.words = fields.words("result");
  } else {
    fields.fault(
        "it has none of 'hello', 'report', 'begun', 'done', 'leaving', 'waits', 'take', 'come', 'ended', 'look', "
        "'send', 'beat', 'has', 'publish', 'misses' and 'result'");
  }
  return fields.end(std::move(words));
}

std::string MasterWords::encoded() const {
  switch (kind) {
    case Kind::freeze: return line_of({{"freeze", epoch}});
    case Kind::tell: return line_of({{"tell", content->encoded()}});
    case Kind::refuse: return line_of({{"refuse", why}});
    case Kind::place: return line_of({{"place", place}, {"number", number}, {"places", places}});
    case Kind::stands:
      return line_of({{"stands", content->encoded()},
                      {"spares", json_of(beside.spares)},
                      {"num spares", beside.spares.size()},
                      {"waits", beside.waits},
                      {"program", json_of(beside.program)},
                      {"num words", beside.program.size()}});
    case Kind::kill: return line_of({{"kill", number}});
    case Kind::leave: return line_of({{"leave", true}});
    case Kind::beat:
      return line_of({{"beat", limit / std::chrono::milliseconds(1)},
                      {"patience", patience / std::chrono::milliseconds(1)},
                      {"hosts", has_hosts}});
    case Kind::lost: return line_of({{"lost", number}});
    case Kind::meet: return line_of({{"meet", words}, {"epoch", epoch}, {"of", meeting}});
    case Kind::heard: return line_of({{"heard", true}});
    case Kind::not_come: return line_of({{"not come", number}});
    case Kind::batch: break;
  }
  return batch ? line_of({{"batch", *batch}, {"taken", taken}}) : line_of({{"no batch", true}, {"taken", taken}});
}

Result<MasterWords> MasterWords::decoded(std::string_view line) {
  Fields fields(line);
  MasterWords words;
  if (fields.has("freeze")) {
    words.epoch = fields.count("freeze");
  } else if (fields.has("tell") || fields.has("stands")) {
    words.kind = fields.has("tell") ? Kind::tell : Kind::stands;
    auto content = Registered::decoded(fields.words(words.kind == Kind::tell ? "tell" : "stands"));
    if (!content) return content.error();
    words.content = std::make_shared<const Registered>(*std::move(content));
    if (words.kind == Kind::tell) return fields.end(std::move(words));
    words.beside.waits = fields.words("waits");
    fields.list("spares", fields.number("num spares", 0, kMostMembers),
                [&](Fields& one) { words.beside.spares.push_back(one.count("is")); });
    fields.list("program", fields.number("num words", 0, kMostMembers),
                [&](Fields& one) { words.beside.program.push_back(one.words("is")); });
  } else if (fields.has("refuse")) {
    words.kind = Kind::refuse;
    words.why = fields.words("refuse");
  } else if (fields.has("batch") || fields.has("no batch")) {
    words.kind = Kind::batch;
    if (fields.has("batch")) words.batch = fields.count("batch");
    words.taken = fields.count("taken");
  } else if (fields.has("place")) {
    words.kind = Kind::place;
    words.places = fields.number("places", 1, kMostMembers);
    words.place = fields.number("place", 0, words.places - 1);
    words.number = fields.count("number");
  } else if (fields.has("kill")) {
    words.kind = Kind::kill;
    words.number = fields.count("kill");
  } else if (fields.has("leave")) {
    words.kind = Kind::leave;
  } else if (fields.has("beat")) {
    words.kind = Kind::beat;
    words.limit = std::chrono::milliseconds(fields.number("beat", 1, kMostMilliseconds));
    words.patience = std::chrono::milliseconds(fields.number("patience", 0, std::numeric_limits<int>::max()));
    words.has_hosts = fields.flag("hosts");
  } else if (fields.has("lost")) {
    words.kind = Kind::lost;
    words.number = fields.count("lost");
  } else if (fields.has("meet")) {
    words.kind = Kind::meet;
    words.words = fields.words("meet");
    words.meeting = fields.words("of");
    words.epoch = fields.count("epoch");
  } else if (fields.has("heard")) {
    words.kind = Kind::heard;
  } else if (fields.has("not come")) {
    words.kind = Kind::not_come;
    words.number = fields.count("not come");
  } else {
    fields.fault(
        "it has none of 'freeze', 'tell', 'refuse', 'batch', 'no batch', 'place', 'stands', 'kill', "
        "'leave', 'beat', 'lost', 'meet', 'heard' and 'not come'");
  }
  return fields.end(std::move(words));
}

}  // namespace stretto
