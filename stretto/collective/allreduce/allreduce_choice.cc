#include "stretto/collective/allreduce/allreduce_choice.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "stretto/base/error.h"
#include "stretto/base/files/input_file.h"
#include "stretto/base/machine/pages.h"

namespace stretto {
namespace {

struct Field {
  const char* name;
  double AllreduceCosts::*value;
};
constexpr std::array<Field, 7> kFields = {{{"hand_off", &AllreduceCosts::hand_off},
                                           {"turn", &AllreduceCosts::turn},
                                           {"start", &AllreduceCosts::start},
                                           {"sum_rate", &AllreduceCosts::sum_rate},
                                           {"move_rate", &AllreduceCosts::move_rate},
                                           {"cache", &AllreduceCosts::cache},
                                           {"memory_rate", &AllreduceCosts::memory_rate}}};

// What no machine goes beyond, in µs, bytes and bytes/µs; with all times between them a prediction is finite.
constexpr double kLeastCost = 1e-9;
constexpr double kLargestCost = 1e15;

/// A chunk stays in the cache of the core that shows it, and is long enough for a hand-off not to matter.
std::uint64_t chunk_of(const AllreduceTask& task) {
  return std::clamp<std::uint64_t>(round_up(task.bytes, 4096), 4 << 10, 512 << 10);
}

/// Small enough to share out evenly, and large enough for a claim not to matter.
std::uint64_t piece_of(const AllreduceTask& task) {
  const auto parts = static_cast<std::uint64_t>(4 * std::max(1, std::min(task.cores, task.ranks)));
  return std::clamp<std::uint64_t>(round_up(task.bytes / parts, 4096), 8 << 10, 256 << 10);
}

std::string in_us(double time) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.3g µs", time);
  return out.data();
}

}  // namespace

const char* name_of(AllreduceChoice::Way way) {
  switch (way) {
    case AllreduceChoice::Way::messages: return "messages";
    case AllreduceChoice::Way::exchange: return "exchange";
    case AllreduceChoice::Way::gather: return "gather";
  }
  return "?";
}

AllreduceCosts AllreduceCosts::read(const std::string& file) {
  auto in = open_file(file);
  if (!in) {
    throw UsageError(text(file, ": cannot be read; `stretto bench tune --out ", file, "` makes it"));
  }
  AllreduceCosts costs;
  std::array<bool, kFields.size()> read{};
  int number = 0;
  for (std::string line; std::getline(in->stream(), line);) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    std::string name;
    std::string equals;
    double value = 0;
    const auto wrong = [&](const std::string& what) { throw UsageError(text(file, ", line ", number, ": ", what)); };
    std::string more;
    if (!(words >> name >> equals >> value) || equals != "=" || words >> more) wrong("expected NAME = NUMBER");
    const auto known = std::find_if(kFields.begin(), kFields.end(), [&](const Field& f) { return f.name == name; });
    if (known == kFields.end()) wrong("expected one of hand_off, turn, start, sum_rate, move_rate, cache, memory_rate");
    if (!(value >= kLeastCost && value <= kLargestCost)) {
      wrong(text("expected a number from ", kLeastCost, " to ", kLargestCost));
    }
    bool& here = read[static_cast<std::size_t>(known - kFields.begin())];
    if (here) wrong(text("a second ", name));
    here = true;
    costs.*known->value = value;
  }
  return costs;
}

std::string AllreduceCosts::to_text() const {
  std::string out;
  for (const Field& field : kFields) {
    std::array<char, 64> line{};
    std::snprintf(line.data(), line.size(), "%s = %.6g\n", field.name, this->*field.value);
    out += line.data();
  }
  return out;
}

AllreduceCosts AllreduceCosts::from_environment() {
  const char* file = std::getenv("STRETTO_TUNING");
  return file != nullptr && *file != '\0' ? read(file) : AllreduceCosts{};
}

double predicted_us(AllreduceChoice::Way way, const AllreduceTask& task, const AllreduceCosts& costs) {
  const auto bytes = static_cast<double>(task.bytes);
  const auto ranks = static_cast<double>(task.ranks);
  const double together = std::min(task.cores, task.ranks);  // ranks that run at once
  const double shifts = ranks / together;                    // one after the other on a core
  const double turns = shifts - 1;                           // of a core from one to the next
  const auto beyond_cache = [&](double touched) { return std::max(0.0, touched - costs.cache) / costs.memory_rate; };
  if (way == AllreduceChoice::Way::exchange) {
    const double chunks = std::max(1.0, bytes / static_cast<double>(chunk_of(task)));
    // Each rank copies its own chunk, reads that of every other, which lies where it was written, and sums them all.
    const double each = (ranks + 1) * bytes / costs.sum_rate + (ranks - 1) * bytes / costs.move_rate;
    return chunks * (costs.hand_off * (ranks - 1) + costs.start + turns * costs.turn) + shifts * each +
           beyond_cache(2 * ranks * bytes);
  }
  const double pieces = std::max(1.0, bytes / static_cast<double>(piece_of(task)));
  // Inputs that are copied in are read by the rank that sums, and the sum is read by all ranks: mostly on another core
  // than the one that wrote them.
  const double copied = task.registered ? 0 : 2 * bytes;
  const double moved = copied * (together - 1) / together;
  // Coming, the sum by the last, and its sight by the others.
  return costs.hand_off * (ranks + 2) + 2 * turns * costs.turn + pieces * costs.start +
         shifts * (copied / costs.sum_rate + moved / costs.move_rate) +
         ranks * bytes / costs.sum_rate / std::min(together, pieces) +
         beyond_cache((ranks + 1) * bytes + ranks * copied);
}

std::uint64_t piece_bytes(AllreduceChoice::Way way, const AllreduceTask& task) {
  return way == AllreduceChoice::Way::exchange ? chunk_of(task) : piece_of(task);
}

AllreduceChoice choose_allreduce(const AllreduceTask& task, const AllreduceCosts& costs) {
  using Way = AllreduceChoice::Way;
  const double exchange = predicted_us(Way::exchange, task, costs);
  const double gather = predicted_us(Way::gather, task, costs);
  // A rank that shows chunks waits for all others at each chunk: only where all run at once.
  const bool can_exchange = task.ranks <= task.cores;
  AllreduceChoice choice;
  choice.way = can_exchange && exchange < gather ? Way::exchange : Way::gather;
  choice.piece_bytes = piece_bytes(choice.way, task);
  choice.why =
      text("gather would take ", in_us(gather),
           can_exchange ? text(", exchange ", in_us(exchange)) : std::string(", exchange needs a core a rank"));
  return choice;
}

}  // namespace stretto
