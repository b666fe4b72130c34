#include "command/bench_allreduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "command/background_load.h"
#include "command/command_line.h"
#include "command/exit_code.h"
#include "command/machine.h"
#include "command/output.h"
#include "command/progress.h"
#include "command/table.h"
#include "stretto/collective/plain.h"
#include "stretto/imbalance/duration.h"
#include "stretto/membership/job.h"
#include "stretto/observe/run_folder.h"
#include "stretto/train/run.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

constexpr int kWarmUpCalls = 20;
constexpr double kMostCalls = 1e6;
constexpr Duration kPatience = 60s;  // for one call
constexpr Duration kWindow = 100ms;  // in which the background load is looked at
const char* const kOurs = "stretto";

struct BenchCommand {
  std::string ranks = "2,8";
  std::string sizes = "8,1KiB,64KiB,512KiB,4MiB";
  std::string against;
  int repeats = 5;
  Duration time = 100ms;
  std::string csv;
  Output output;
};

// What one rank does; rank 0 reports the lines that a peer program would print.
class AllreduceRank {
 public:
  AllreduceRank(RankContext& context, std::span<const std::uint64_t> sizes)
      : context_(context),
        engine_(context.transport(), clock_),
        barrier_(engine_),
        agree_(engine_, DataType::float64, 1),
        sums_(allreduces(engine_, sizes)),
        driver_(engine_, waiting(context)) {}

  void run(Duration time, std::span<const std::uint64_t> sizes) {
    std::string report;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::vector<float> mine(sizes[i] / sizeof(float), 1.0f);
      std::vector<float> sum(mine.size());
      const double once = loop(sums_[i], kWarmUpCalls, mine, sum);
      std::array<double, 1> calls = {std::clamp(std::floor(seconds(time) / once), 1.0, kMostCalls)};
      agree_.run(driver_, driver_.deadline(kPatience), calls).or_throw();
      const double taken = loop(sums_[i], static_cast<int>(calls[0]), mine, sum);
      if (sum.back() != static_cast<float>(context_.size())) throw Failure({Errc::aborted, "a sum came out wrong"});
      report += fmt::format("{} {} {:.4f}\n", sizes[i], static_cast<int>(calls[0]), 1e6 * taken);
    }
    if (context_.rank() == 0) context_.report(report);
  }

 private:
  // All of them before anybody drives the engine.
  static std::deque<Allreduce> allreduces(Engine& engine, std::span<const std::uint64_t> sizes) {
    std::deque<Allreduce> out;
    for (const std::uint64_t bytes : sizes) {
      out.emplace_back(engine, DataType::float32, bytes / sizeof(float), ReduceOp::sum);
    }
    return out;
  }

  static DriverOptions waiting(RankContext& context) {
    DriverOptions options;
    if (context.size() > this_machine().cores) options.share_cores();
    return options;
  }

  // Seconds for one call.
  double loop(Allreduce& allreduce, int calls, const std::vector<float>& mine, std::vector<float>& sum) {
    barrier_.run(driver_, driver_.deadline(kPatience)).or_throw();
    const TimePoint begin = clock_.now();
    const TimePoint deadline = begin + kPatience;
    for (int i = 0; i < calls; ++i) allreduce.run(driver_, deadline, mine, sum).or_throw();
    return seconds(clock_.now() - begin) / calls;
  }

  RankContext& context_;
  const SteadyClock clock_;
  Engine engine_;
  Barrier barrier_;
  Broadcast agree_;
  std::deque<Allreduce> sums_;
  EngineDriver driver_;
};

void describe_options(CommandLine& line, BenchCommand& command) {
  line.heading("The measurement");
  line.option("--ranks", "LIST", "How many processes. Default " + command.ranks + ".", into(command.ranks));
  line.option("--sizes", "LIST", "Bytes of float32 that are summed. Default " + command.sizes + ".",
              into(command.sizes));
  line.option("--against", "LIST",
              "Libraries that are measured in the same run, interleaved and in rotating order: openmpi, mpich, gloo.",
              into(command.against));
  line.option("--repeats", "N", "Repetitions; each starts fresh processes. Default 5.",
              into(command.repeats, 1, 10000, "5"));
  line.option("--time", "TIME", "Spent on each size in each repetition. Default 100ms.", into(command.time, "100ms"));
  line.heading("Output");
  line.option("--csv", "FILE", "Every repetition, a line each.", into(command.csv));
  command.output.add_option(line);
  line.example("stretto bench allreduce --against openmpi,mpich,gloo", "Who is faster, by ranks and size.");
  line.example("stretto bench allreduce --ranks 2 --sizes 8 --repeats 20", "The latency between two processes.");
  line.note(
      "A time is that of one call in a loop, by rank 0's clock: median and 95 % interval of the repetitions. One "
      "before "
      "which other programs took more than a tenth of the machine is marked as loaded, and counts only where there is "
      "no other. Gloo is called through torch.distributed; Python's share of a call is in its times.");
}

std::vector<int> parse_ranks(const std::string& list) {
  std::vector<int> out;
  for (const std::string& part : split_list(list)) {
    out.push_back(static_cast<int>(parse_integer("--ranks", part, 1, JobMemory::kMaxRanks, "2,8")));
  }
  if (out.empty()) reject("--ranks", list, "expected at least one number", "2,8");
  return out;
}

std::vector<AllreducePeer> parse_libraries(const std::string& list) {
  std::vector<AllreducePeer> out = {{kOurs, measure_allreduce}};
  for (const std::string& name : split_list(list)) {
    const auto& known = allreduce_peers();
    const auto found = std::ranges::find(known, name, &AllreducePeer::name);
    if (found == known.end()) reject("--against", name, "expected some of openmpi, mpich, gloo", "openmpi,gloo");
    out.push_back(*found);
  }
  return out;
}

class Bench {
 public:
  explicit Bench(const BenchCommand& command)
      : command_(command),
        ranks_(parse_ranks(command.ranks)),
        sizes_(parse_float32_sizes("--sizes", command.sizes)),
        libraries_(parse_libraries(command.against)) {}

  void measure() {
    const auto turns = ranks_.size() * libraries_.size() * static_cast<std::size_t>(command_.repeats);
    Progress progress("allreduce", "turns", turns);
    std::size_t done = 0;
    for (int repetition = 0; repetition < command_.repeats; ++repetition) {
      for (const int ranks : ranks_) {
        for (std::size_t turn = 0; turn < libraries_.size(); ++turn) {
          // Each is first as often as any other: a machine that gets slower or faster favours none.
          measure(libraries_[(turn + static_cast<std::size_t>(repetition)) % libraries_.size()], ranks, repetition);
          progress.update(++done);
        }
      }
    }
  }

  std::string table() const {
    std::vector<std::string> headings = {"ranks", "size", "stretto µs", "GB/s"};
    for (std::size_t i = 1; i < libraries_.size(); ++i) headings.push_back(libraries_[i].name + " µs");
    if (libraries_.size() > 1) headings.emplace_back("best of them / stretto");
    Table table(headings);
    for (const int ranks : ranks_) {
      for (const std::uint64_t bytes : sizes_) {
        const AllreduceFigure ours = figure_of(samples_, kOurs, ranks, bytes);
        std::vector<std::string> row = {std::to_string(ranks), to_bytes(bytes), interval(ours),
                                        significant(ours.bus_bandwidth)};
        double best = std::numeric_limits<double>::infinity();
        for (std::size_t i = 1; i < libraries_.size(); ++i) {
          const AllreduceFigure theirs = figure_of(samples_, libraries_[i].name, ranks, bytes);
          row.push_back(interval(theirs));
          if (theirs.repetitions > 0) best = std::min(best, theirs.microseconds.estimate);
        }
        if (libraries_.size() > 1) {
          row.push_back(std::isfinite(best) ? significant(best / ours.microseconds.estimate) + "×" : "–");
        }
        table.add(row);
      }
    }
    return table.to_text();
  }

  std::string notes() const {
    std::string out;
    for (const std::string& note : notes_) out += note + "\n";
    const auto loaded = std::ranges::count_if(samples_, [](const auto& s) { return s.background > kLoadedFrom; });
    if (loaded > 0) {
      out += fmt::format("{} of {} measurements were made while others loaded the machine\n", loaded, samples_.size());
    }
    return out;
  }

  std::string csv() const {
    std::string out = "library,ranks,bytes,repetition,calls,microseconds,background,loaded\n";
    for (const AllreduceSample& s : samples_) {
      out += fmt::format("{},{},{},{},{},{:.4f},{:.3f},{}\n", s.library, s.ranks, s.time.bytes, s.repetition,
                         s.time.calls, s.time.microseconds, s.background, s.background > kLoadedFrom ? 1 : 0);
    }
    return out;
  }

  Json to_json() const {
    Json rows = Json::array();
    for (const AllreducePeer& library : libraries_) {
      for (const int ranks : ranks_) {
        for (const std::uint64_t bytes : sizes_) {
          const AllreduceFigure figure = figure_of(samples_, library.name, ranks, bytes);
          if (figure.repetitions == 0) continue;
          rows.push_back({{"library", library.name},
                          {"ranks", ranks},
                          {"bytes", bytes},
                          {"median_us", figure.microseconds.estimate},
                          {"low_us", figure.microseconds.low},
                          {"high_us", figure.microseconds.high},
                          {"bus_gb_per_s", figure.bus_bandwidth},
                          {"repetitions", figure.repetitions},
                          {"loaded", figure.loaded}});
        }
      }
    }
    return {{"rows", rows}};
  }

 private:
  void measure(const AllreducePeer& library, int ranks, int repetition) {
    const double background = background_load(kWindow);
    const auto times = library.run(ranks, command_.time, sizes_);
    if (!times) {
      if (library.name == kOurs) throw Failure(times.error());
      const std::string note =
          fmt::format("{} is left out with {} ranks: {}", library.name, ranks, times.error().message);
      if (std::ranges::find(notes_, note) == notes_.end()) notes_.push_back(note);
      return;
    }
    for (const AllreduceTime& time : *times) samples_.push_back({library.name, ranks, repetition, time, background});
  }

  static std::string interval(const AllreduceFigure& figure) {
    if (figure.repetitions == 0) return "–";
    return fmt::format("{} [{}, {}]{}", significant(figure.microseconds.estimate), significant(figure.microseconds.low),
                       significant(figure.microseconds.high), figure.loaded > 0 ? "*" : "");
  }

  const BenchCommand& command_;
  const std::vector<int> ranks_;
  const std::vector<std::uint64_t> sizes_;
  const std::vector<AllreducePeer> libraries_;
  std::vector<AllreduceSample> samples_;
  std::vector<std::string> notes_;
};

}  // namespace

AllreduceFigure figure_of(std::span<const AllreduceSample> samples, const std::string& library, int ranks,
                          std::uint64_t bytes) {
  std::vector<double> quiet;
  std::vector<double> all;
  for (const AllreduceSample& sample : samples) {
    if (sample.library != library || sample.ranks != ranks || sample.time.bytes != bytes) continue;
    all.push_back(sample.time.microseconds);
    if (!(sample.background > kLoadedFrom)) quiet.push_back(sample.time.microseconds);
  }
  const std::vector<double>& counted = quiet.empty() ? all : quiet;
  AllreduceFigure figure;
  figure.repetitions = static_cast<int>(counted.size());
  figure.loaded = static_cast<int>(all.size() - quiet.size());
  if (counted.empty()) return figure;
  figure.microseconds = median_interval(counted);
  figure.bus_bandwidth = 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / figure.microseconds.estimate / 1e3;
  return figure;
}

Result<std::vector<AllreduceTime>> measure_allreduce(int ranks, Duration time, std::span<const std::uint64_t> sizes) {
  JobOptions job;
  job.ranks = ranks;
  job.patience_after_loss = 1s;
  const auto result = run_job(job, [&](RankContext& context) {
    AllreduceRank(context, sizes).run(time, sizes);
    return 0;
  });
  if (!result) return result.error();
  if (result->interrupted) throw Interrupted("interrupted");
  if (!result->ok()) return Error{Errc::lost_peer, "a rank failed", result->first_lost};
  return parse_allreduce_times(result->reports.front());
}

int run_bench_allreduce(const Arguments& arguments) {
  BenchCommand command;
  CommandLine line("stretto bench allreduce", "How long one allreduce takes, by ranks and size.");
  describe_options(line, command);
  if (!line.parse(arguments)) {
    fmt::print("{}", line.help());
    return kSuccess;
  }
  Bench bench(command);
  const Machine machine = this_machine();
  command.output.say(machine.to_text());
  bench.measure();
  command.output.say(bench.table() + bench.notes());
  if (!command.csv.empty()) {
    const auto written = write_whole_file(command.csv, bench.csv());
    if (!written) throw Failure(written.error());
  }
  Json out = bench.to_json();
  out["machine"] = machine.to_json();
  command.output.emit(out);
  return kSuccess;
}

}  // namespace stretto::command
