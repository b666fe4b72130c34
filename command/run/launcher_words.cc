#include "command/run/launcher_words.h"

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "stretto/base/version.h"
#include "stretto/base/words.h"
#include "stretto/membership/hosts/fields.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

constexpr int kMostRanks = JobMemory::kMaxRanks;

/// Texts have any bytes, which JSON has not.
std::string letters_of(std::string_view bytes) {
  return base64(std::as_bytes(std::span(bytes)));
}

std::string letters_of(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) (joined += text) += '\0';
  return letters_of(std::string_view(joined));
}

std::vector<std::string> texts_of(const std::string& letters) {
  const std::string joined = bytes_of_base64(letters);
  std::vector<std::string> texts;
  for (std::size_t begin = 0, end = 0; (end = joined.find('\0', begin)) != std::string::npos; begin = end + 1) {
    texts.push_back(joined.substr(begin, end - begin));
  }
  return texts;
}

nlohmann::json json_of(const char* kind, const PlaceOfFirst& place) {
  return {{kind, true}, {"address", place.address}, {"master", place.master_port}, {"meeting", place.meeting_port}};
}

PlaceOfFirst place_in(Fields& fields) {
  return {.address = fields.words("address"),
          .master_port = fields.number("master", 0, 65535),
          .meeting_port = fields.number("meeting", 0, 65535)};
}

nlohmann::json json_of(const ProgramRanks& job) {
  return {{"program", letters_of(job.program)},
          {"own", job.is_own},
          {"ranks", job.ranks},
          {"here", job.here.value_or(0)},
          {"first", job.on_host.first},
          {"host", job.on_host.host},
          {"hosts", job.on_host.hosts},
          {"run", job.on_host.run_id},
          {"at", job.job ? job.job->to_string() : ""},
          {"restarts", job.restarts},
          {"no_return", job.no_return},
          {"evict", job.evict.count()},
          {"grace", job.grace.count()},
          {"liveness", job.liveness.count()},
          {"tag", job.tag}};
}

Duration duration_in(Fields& fields, const char* name) {
  return Duration(fields.number<std::int64_t>(name, 0, std::numeric_limits<std::int64_t>::max()));
}

ProgramRanks job_in(Fields& fields) {
  ProgramRanks job;
  job.program = texts_of(fields.words("program"));
  job.is_own = fields.flag("own");
  job.ranks = fields.number("ranks", 0, kMostRanks);
  job.here = fields.number("here", 1, kMostRanks);
  job.on_host = {.first = fields.number("first", 0, kMostRanks),
                 .host = fields.number("host", 0, kMostRanks),
                 .hosts = fields.number("hosts", 1, kMostRanks),
                 .run_id = fields.words("run")};
  if (const std::string at = fields.words("at"); !at.empty()) {
    const auto address = JobAddress::parse(at);
    if (!address) {
      fields.fault(address.error().message);
    } else {
      job.job = *address;
    }
  }
  job.restarts = fields.number("restarts", 0, kMostRanks);
  job.no_return = fields.flag("no_return");
  job.evict = duration_in(fields, "evict");
  job.grace = duration_in(fields, "grace");
  job.liveness = duration_in(fields, "liveness");
  job.tag = fields.flag("tag");
  return job;
}

}  // namespace

std::string hello_line() {
  return std::string(kHelloBegins) + stretto_version();
}

std::string CallerWords::encoded() const {
  switch (kind) {
    case Kind::job: {
      nlohmann::json object = json_of(job);
      object["environment"] = letters_of(environment);
      object["folder"] = letters_of(folder);
      return line_of(object);
    }
    case Kind::begin: return line_of(json_of("begin", place));
    case Kind::signal: return line_of({{"signal", number}});
    case Kind::end: return line_of({{"end", true}});
    case Kind::beat: break;
  }
  return line_of({{"beat", true}});
}

Result<CallerWords> CallerWords::decoded(std::string_view line) {
  Fields fields(line);
  CallerWords words;
  if (fields.has("program")) {
    words.kind = Kind::job;
    words.job = job_in(fields);
    words.environment = texts_of(fields.words("environment"));
    words.folder = bytes_of_base64(fields.words("folder"));
  } else if (fields.has("begin")) {
    words.kind = Kind::begin;
    words.place = place_in(fields);
  } else if (fields.has("signal")) {
    words.kind = Kind::signal;
    words.number = fields.number("signal", 1, 64);
  } else if (fields.has("end")) {
    words.kind = Kind::end;
  } else {
    fields.flag("beat");
  }
  return fields.end(words);
}

std::string HostWords::encoded() const {
  switch (kind) {
    case Kind::ready: return line_of(json_of("ready", place));
    case Kind::refused: return line_of({{"refused", letters_of(words)}});
    case Kind::out: return line_of({{"out", letters_of(words)}});
    case Kind::errors: return line_of({{"errors", letters_of(words)}});
    case Kind::failed: return line_of({{"failed", number}});
    case Kind::ended: return line_of({{"ended", true}});
    case Kind::beat: break;
  }
  return line_of({{"beat", true}});
}

Result<HostWords> HostWords::decoded(std::string_view line) {
  Fields fields(line);
  HostWords words;
  const auto is = [&](const char* name, Kind kind) {
    if (!fields.has(name)) return false;
    words.kind = kind;
    return true;
  };
  if (is("ready", Kind::ready)) {
    words.place = place_in(fields);
  } else if (is("refused", Kind::refused)) {
    words.words = bytes_of_base64(fields.words("refused"));
  } else if (is("out", Kind::out)) {
    words.words = bytes_of_base64(fields.words("out"));
  } else if (is("errors", Kind::errors)) {
    words.words = bytes_of_base64(fields.words("errors"));
  } else if (is("failed", Kind::failed)) {
    words.number = fields.number("failed", 0, 255);
  } else if (is("ended", Kind::ended)) {
    fields.flag("ended");
  } else {
    fields.flag("beat");
  }
  return fields.end(words);
}

bool take_line(std::string& bytes, std::string& line) {
  const std::size_t end = bytes.find('\n');
  if (end == std::string::npos) return false;
  line = bytes.substr(0, end);
  bytes.erase(0, end + 1);
  return true;
}

}  // namespace stretto::command
