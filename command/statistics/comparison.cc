#include "command/statistics/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "command/cli/progress.h"
#include "command/cli/table.h"
#include "command/machine/child_processes.h"
#include "command/machine/machine.h"
#include "stretto/observe/run_folder.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

constexpr Duration kWindow = 100ms;  // in which the background load is looked at
constexpr int kMostBusy = 1024;

}  // namespace

bool is_ours(const std::string& library) {
  return library.starts_with(kOurs);
}

bool is_loaded(const Sample& sample) {
  return sample.background > kLoadedFrom;
}

void ComparisonOptions::describe_measurement(CommandLine& line, std::vector<std::string> libraries) {
  if (!libraries.empty()) {
    line.option("--against", "LIST",
                "Libraries that are measured in the same run, interleaved and in rotating order: openmpi, openmpi-spin "
                "(never yields its core), openmpi-eager (between hosts: asks nobody before it sends), mpich, gloo.",
                into(against, std::move(libraries)));
  }
  line.option("--repeats", "N", fmt::format("Repetitions; each starts fresh processes. Default {}.", repeats),
              into(repeats, 1, 10000, "5"));
  line.option("--load", "N", "So many busy processes load the cores while a library is measured. Default 0.",
              into(busy, 0, kMostBusy, "2"));
}

void ComparisonOptions::describe_output(CommandLine& line) {
  line.heading("Output");
  line.option("--csv", "FILE", "Every repetition, a line each.", writable_file_into(csv));
  output.add_option(line);
}

const char* ComparisonOptions::note() {
  return "Numbers are median and 95 % interval over the repetitions. One before which other programs took more than a "
         "tenth of the machine is marked as loaded (*), and counts only where there is no other; the processes of "
         "--load start after that look. Gloo is called through torch.distributed; Python's share of a call is in its "
         "times.";
}

void Comparison::measure() {
  const auto turns = plan_.ranks.size() * plan_.contenders.size() * static_cast<std::size_t>(options_.repeats);
  Progress progress(plan_.name, "turns", turns);
  std::size_t done = 0;
  for (int repetition = 0; repetition < options_.repeats; ++repetition) {
    for (const int ranks : plan_.ranks) {
      for (std::size_t turn = 0; turn < plan_.contenders.size(); ++turn) {
        // Each is first as often as any other: a machine that gets slower or faster favours none.
        measure((turn + static_cast<std::size_t>(repetition)) % plan_.contenders.size(), ranks, repetition);
        progress.update(++done);
      }
    }
  }
}

void Comparison::measure(std::size_t index, int ranks, int repetition) {
  const Contender& contender = plan_.contenders[index];
  const double background = background_load(kWindow);
  const BusyProcesses busy(options_.busy);
  auto readings = contender.run(ranks);
  if (!readings) {
    if (is_ours(contender.library)) throw Failure(readings.error());
    const std::string note =
        fmt::format("{} is left out with {} ranks: {}", contender.library, ranks, readings.error().message);
    if (std::ranges::find(notes_, note) == notes_.end()) notes_.push_back(note);
    return;
  }
  for (Reading& reading : *readings) samples_.push_back({index, repetition, background, std::move(reading)});
}

std::vector<Comparison::Case> Comparison::cases() const {
  std::vector<Case> out;
  for (const Sample& sample : samples_) {
    const Case at{sample.reading.ranks, sample.reading.bytes};
    if (std::ranges::find(out, at) == out.end()) out.push_back(at);
  }
  return out;
}

Figure Comparison::figure(std::size_t contender, Case at, std::size_t metric) const {
  return figure_of(samples_, contender, at, metric);
}

Interval Comparison::ratio(std::size_t contender, std::size_t other, Case at, std::size_t metric) const {
  std::map<int, double> others;  // by repetition
  for (const auto& [who, repetition, background, reading] : samples_) {
    if (who == other && Case{reading.ranks, reading.bytes} == at) others[repetition] = reading.values[metric];
  }
  std::vector<double> ratios;
  for (const auto& [who, repetition, background, reading] : samples_) {
    if (who != contender || Case{reading.ranks, reading.bytes} != at || !others.contains(repetition)) continue;
    ratios.push_back(reading.values[metric] / others[repetition]);
  }
  return median_interval(ratios);
}

std::string Comparison::table(const std::vector<std::size_t>& metrics) const {
  std::vector<std::string> headings = {"library", "ranks", "size"};
  if (!plan_.mode_heading.empty()) headings.insert(headings.begin() + 1, plan_.mode_heading);
  for (const std::size_t metric : metrics) headings.push_back(plan_.metrics[metric].heading);
  Table table(headings);
  for (const Case& at : cases()) {
    for (std::size_t i = 0; i < plan_.contenders.size(); ++i) {
      const Contender& contender = plan_.contenders[i];
      std::vector<std::string> row = {contender.library, std::to_string(at.ranks), to_bytes(at.bytes)};
      if (!plan_.mode_heading.empty()) row.insert(row.begin() + 1, contender.mode);
      for (const std::size_t metric : metrics) row.push_back(figure(i, at, metric).to_text());
      table.add(row);
    }
  }
  return table.to_text();
}

std::string Comparison::notes() const {
  std::string out;
  for (const std::string& note : notes_) out += note + "\n";
  if (options_.busy > 0) {
    out += fmt::format("{} busy process{} of our own loaded the cores meanwhile\n", options_.busy,
                       options_.busy == 1 ? "" : "es");
  }
  const auto loaded = std::ranges::count_if(samples_, is_loaded);
  if (loaded > 0) {
    out +=
        fmt::format("{} of {} measurements were made while others loaded the machine (*)\n", loaded, samples_.size());
  }
  return out;
}

std::string Comparison::csv() const {
  std::string out = "library";
  if (!plan_.mode_heading.empty()) out += "," + plan_.mode_heading;
  out += ",ranks,bytes,repetition";
  for (const Metric& metric : plan_.metrics) out += "," + metric.name;
  out += ",background,loaded,busy\n";
  for (const Sample& sample : samples_) {
    const Contender& contender = plan_.contenders[sample.contender];
    out += contender.library;
    // A deadline has a comma of its own.
    if (!plan_.mode_heading.empty()) out += fmt::format(",\"{}\"", contender.mode);
    out += fmt::format(",{},{},{}", sample.reading.ranks, sample.reading.bytes, sample.repetition);
    for (const double value : sample.reading.values) out += std::isnan(value) ? "," : fmt::format(",{:.7g}", value);
    out += fmt::format(",{:.3f},{},{}\n", sample.background, is_loaded(sample) ? 1 : 0, options_.busy);
  }
  return out;
}

Json Comparison::to_json() const {
  Json rows = Json::array();
  for (std::size_t i = 0; i < plan_.contenders.size(); ++i) {
    for (const Case& at : cases()) {
      Json row = {{"library", plan_.contenders[i].library}};
      if (!plan_.mode_heading.empty()) row[plan_.mode_heading] = plan_.contenders[i].mode;
      row.update({{"ranks", at.ranks}, {"bytes", at.bytes}});
      Figure figure;
      for (std::size_t metric = 0; metric < plan_.metrics.size(); ++metric) {
        figure = this->figure(i, at, metric);
        row[plan_.metrics[metric].name] = {
            {"median", figure.value.estimate}, {"low", figure.value.low}, {"high", figure.value.high}};
      }
      if (figure.repetitions == 0) continue;
      row.update({{"repetitions", figure.repetitions}, {"loaded", figure.loaded}, {"busy", options_.busy}});
      rows.push_back(std::move(row));
    }
  }
  return {{"rows", rows}};
}

void Comparison::run(const std::function<std::string()>& tables) {
  const Machine machine = this_machine();
  options_.output.say(machine.to_text() + (plan_.places.empty() ? "" : "\n" + plan_.places));
  measure();
  options_.output.say(tables() + notes());
  if (!options_.csv.empty()) write_whole_file(options_.csv, csv()).or_throw();
  Json out = to_json();
  if (!plan_.places.empty()) out["places"] = plan_.places;
  out["machine"] = machine.to_json();
  options_.output.emit(out);
}

Figure figure_of(const std::vector<Sample>& samples, std::size_t contender, Comparison::Case at, std::size_t metric) {
  std::vector<double> quiet;
  std::vector<double> all;
  for (const Sample& sample : samples) {
    const Reading& reading = sample.reading;
    if (sample.contender != contender || Comparison::Case{reading.ranks, reading.bytes} != at) continue;
    all.push_back(reading.values[metric]);
    if (!is_loaded(sample)) quiet.push_back(reading.values[metric]);
  }
  const std::vector<double>& counted = quiet.empty() ? all : quiet;
  return {median_interval(counted), static_cast<int>(counted.size()), static_cast<int>(all.size() - quiet.size())};
}

std::string Figure::to_text() const {
  if (repetitions == 0 || std::isnan(value.estimate)) return "–";
  const std::string mark = loaded > 0 ? "*" : "";
  const std::string median = significant(value.estimate);
  if (value.low == value.high) return median + mark;
  return fmt::format("{} [{}, {}]{}", median, significant(value.low), significant(value.high), mark);
}

std::vector<int> parse_ranks(const std::string& list, int low) {
  std::vector<int> out;
  for (const std::string& part : split_list(list)) {
    out.push_back(static_cast<int>(parse_integer("--ranks", part, low, JobMemory::kMaxRanks, "2,8")));
  }
  if (out.empty()) reject("--ranks", list, "expected at least one number", "2,8");
  return out;
}

}  // namespace stretto::command
