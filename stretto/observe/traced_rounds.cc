#include "stretto/observe/traced_rounds.h"

#include <cmath>
#include <filesystem>
#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "stretto/base/files/input_file.h"

namespace stretto {
namespace {

using nlohmann::json;

constexpr std::string_view kBeginOfMergedTrace = R"({"displayTimeUnit")", kEndOfMergedTrace = "]}";
// Most lines are slices of steps: what is not a round is told by its text, not parsed.
constexpr std::string_view kMarkOfARound = R"("args":{"round":)";

TraceWriter::Fate fate_of(const std::string& name) {
  if (name == "fresh") return TraceWriter::Fate::fresh;
  if (name == "stale") return TraceWriter::Fate::stale;
  return name == "null" ? TraceWriter::Fate::null : TraceWriter::Fate::unknown;
}

std::optional<HandedRound> round_in(const json& event) {
  try {
    const json& arguments = event.at("args");
    const auto microseconds = event.at("ts").get<double>() + event.at("dur").get<double>();
    const int track = event.at("tid").get<int>();
    if (track < 0 || track % 2 == 0 || !(microseconds >= 0 && microseconds < 1e15)) return std::nullopt;
    return HandedRound{.rank = track / 2,
                       .when = Duration(std::llround(1000 * microseconds)),
                       .round = {.round = arguments.at("round").get<std::uint64_t>(),
                                 .fate = fate_of(event.at("name").get<std::string>()),
                                 .arrived = arguments.at("arrived").get<int>(),
                                 .contributors = arguments.at("contributors").get<int>(),
                                 .batches = arguments.at("batches").get<std::uint64_t>(),
                                 .staleness = arguments.at("staleness").get<std::uint64_t>()}};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

Result<LinesFound> read_traced_rounds(const std::string& path, FunctionRef<void(const HandedRound&)> take) {
  if (std::error_code unknown; !std::filesystem::exists(stored_as(path), unknown)) return LinesFound::no_file;
  auto opened = open_file(stored_as(path));
  if (!opened) return opened.error();
  std::istream& file = opened->stream();
  std::string line;
  bool merged = false, ended = false, whole = true;
  for (std::uint64_t number = 1; std::getline(file, line); ++number) {
    if (number == 1) merged = line.starts_with(kBeginOfMergedTrace);
    ended = line == kEndOfMergedTrace;
    const bool event_line = line.starts_with(R"({"ph":)") && (line.ends_with('}') || line.ends_with("},"));
    whole = whole && (event_line || (merged && (number == 1 || ended)));
    if (line.find(kMarkOfARound) == std::string::npos) continue;
    if (line.ends_with(',')) line.pop_back();
    const json event = json::parse(line, nullptr, false);
    if (event.is_discarded()) continue;
    const auto round = round_in(event);
    if (!round) return Error{Errc::bad_input, text("'", path, "' line ", number, ": no round of a rank")};
    take(*round);
  }
  if (const auto read = opened->whole(); !read && !opened->is_cut()) return read.error();
  return whole && ended == merged && !opened->is_cut() ? LinesFound::all : LinesFound::cut;
}

}  // namespace stretto
