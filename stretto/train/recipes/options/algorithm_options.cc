#include "stretto/train/recipes/options/algorithm_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/words.h"

namespace stretto {
namespace {

using Kind = AlgorithmOption::Kind;

constexpr std::string_view kGroupOrders[] = {"dynamic", "fixed"};
constexpr std::string_view kElasticRules[] = {"carry", "paper"};
constexpr std::string_view kLayouts[] = {"rectangle", "paper"};
constexpr std::string_view kCompressions[] = {"none", "zeros", "int8"};
constexpr std::string_view kMissing[] = {"received", "previous"};
constexpr std::string_view kStaleRules[] = {"mix", "carry", "moves"};
constexpr std::string_view kPublications[] = {"before", "after"};
constexpr std::string_view kLateRanks[] = {"catch-up", "jump"};
constexpr std::string_view kLateSums[] = {"newest", "own"};
constexpr std::string_view kYesOrNo[] = {"yes", "no"};
constexpr std::string_view kStatisticsAverages[] = {"end", "full"};

constexpr std::string_view kWaits[] = {"sleep", "spin"};
constexpr std::string_view kOnChange[] = {"coordinator", "fail"};

constexpr std::string_view kRounds[] = {"one", "per-bucket"};

constexpr AlgorithmOption kOptions[] = {
    {"rounds", "one|per-bucket",
     "eager algorithms: one (default): a step is one round of all gradients. per-bucket: each bucket of gradients has "
     "rounds of its own, one a step, so that a late rank's first buckets may still be in time; a gradient may be "
     "partly in one round and partly in the next, and each bucket costs the messages or wake-ups of a round.",
     "per-bucket", Kind::word, 0, 0, kRounds},
    {"outer-lr", "RATE",
     "diloco: rate of the outer step, by which all ranks move the outer model in each round; 1 with --outer-momentum 0 "
     "is plain averaging. Default 0.7; with --keep yes 1.",
     "0.7", Kind::number},
    {"outer-momentum", "M",
     "diloco: Nesterov's momentum of the outer step, from 0 to below 1. Default 0.9; with --keep yes 0, since it would "
     "carry the outer model away from weights that do not follow.",
     "0.9", Kind::number},
    {"keep", "yes|no",
     "diloco under a policy: weights go on from where they are, and take the outer model at full rounds only, instead "
     "of after each exchange (no, the default).",
     "yes", Kind::word, 0, 0, kYesOrNo},
    {"full-every", "N",
     "diloco under a policy, easgd-async: batches between rounds that wait for all; easgd-async goes on from the "
     "center. Default: none; diloco with --keep yes ten phases of each rank.",
     "1000", Kind::count, 1},
    {"post-local", "N",
     "local: averages after every step until N batches of all ranks have been applied, and only then every "
     "--sync-every steps (post-local SGD). Default 0.",
     "1000", Kind::count},
    {"alpha", "A",
     "easgd-grid: share of its distance to the mean of its line by which a model moves, in each dimension. Default "
     "0.5. "
     "easgd, easgd-async: of its distance to the center, default 0.9 / ranks. A smaller one lets ranks explore on "
     "their "
     "own, and mixes slower.",
     "0.1", Kind::number, 0, 1},
    {"elastic-rule", "RULE",
     "easgd-grid: how a model moves by a mean. carry (default): by what the mean is beyond the model that was "
     "contributed, so that no step is lost; paper: towards the mean, which loses steps made meanwhile.",
     "carry", Kind::word, 0, 0, kElasticRules},
    {"layout", "SHAPE", "easgd-grid: the ranks in rows and columns: rectangle (default), or paper, its diagonal first.",
     "paper", Kind::word, 0, 0, kLayouts},
    {"dimensions", "D",
     "easgd-grid: of the grid. More have shorter lines, of fewer bytes, and take more rounds to reach all. Default 2; "
     "below four ranks 1.",
     "3", Kind::count, 1, 16},
    {"grid-rows", "N", "easgd-grid: rows of the rectangle; 1: one line of all. Default: about the root of the ranks.",
     "4", Kind::count, 0, 1e6},
    {"reduce-share", "SHARE",
     "easgd-grid: share of a line whose models a slice is averaged from once --line-patience has passed. Default 1.",
     "0.5", Kind::number, 0, 1},
    {"complete-share", "SHARE",
     "easgd-grid: share of a round's slices with which it is over once --line-patience has passed. Default 1.", "0.5",
     Kind::number, 0, 1},
    {"advance-share", "SHARE",
     "easgd-grid: share of a line that has applied a round before the next one starts, once --line-patience has "
     "passed. "
     "Default 1.",
     "0.5", Kind::number, 0, 1},
    {"line-patience", "TIME",
     "easgd-grid: so long the ranks of a line are waited for beyond those shares; or adaptive, by how long they took "
     "before. Nobody's training waits for it. Default 0ms.",
     "20ms"},
    {"missing", "RULE",
     "easgd-grid: what stands in for a model that has not come. received (default): nothing, a mean is of those that "
     "have; previous, with --elastic-rule paper: the last slice that came of its rank, which takes memory for one "
     "model "
     "more a dimension.",
     "previous", Kind::word, 0, 0, kMissing},
    {"rounds-in-flight", "N",
     "easgd-grid with --elastic-rule paper: rounds of a line that may be under way at a time, before the oldest is "
     "ended as it is; with --advance-share below 1, else without effect. Default 1.",
     "2", Kind::count, 1, 8},
    {"compression", "FORM",
     "easgd-grid: how slices of models are sent in the lines. none (default); zeros: without their zeros, where more "
     "than 40 % are, to the bit; int8: a byte for each float32, which is its rounded difference from what the other "
     "side knows, in a quarter of the bytes and memory for nearly four models more a dimension.",
     "int8", Kind::word, 0, 0, kCompressions},
    {"steps-per-exchange", "N", "easgd-grid: own steps between two looks at what the lines have brought. Default 1.",
     "4", Kind::count, 1, 1e9},
    {"tau", "N",
     "wagma: every N-th round is one of all ranks, who wait for each other. A larger N waits less often, and lets "
     "models part further meanwhile. Default 10.",
     "10", Kind::count, 1, 1e9},
    {"group-order", "ORDER",
     "wagma: which ranks are in a group. dynamic (default): others in each round; fixed: always the same, for "
     "comparison.",
     "dynamic", Kind::word, 0, 0, kGroupOrders},
    {"group-quorum", "N",
     "wagma: a round in groups starts when N of all ranks have come; 0: when the first has. A larger N waits longer, "
     "and averages fewer models that are out of date. Default 0; wagma-quorum: half of the ranks.",
     "4", Kind::count, 0, 1e6},
    {"stale", "RULE",
     "wagma: what becomes of a rank that computes while its group averages an older model of its own. mix (the "
     "paper's): it counts as one member more; carry: it takes the average and adds what it has done since; moves: the "
     "older model becomes the average at once, and its step is put on that, so that no step of any rank is lost. "
     "Default mix; wagma-quorum: moves.",
     "moves", Kind::word, 0, 0, kStaleRules},
    {"publish", "WHEN",
     "wagma with stale mix or carry: the model that others average with. before (the paper's): after each step of its "
     "rank's own; after: also after each average. Default before; wagma-quorum: after.",
     "after", Kind::word, 0, 0, kPublications},
    {"late", "WHAT",
     "wagma: a rank that has missed rounds. catch-up (the paper's): makes a batch for each of them, without waiting; "
     "jump: goes on with the open one, which pays with --data shared. Default catch-up; wagma-quorum: jump.",
     "jump", Kind::word, 0, 0, kLateRanks},
    {"group-sum", "WHICH",
     "wagma with stale mix or carry: the sum that a late rank uses. newest (default): the newest there is; own: that "
     "of its own iteration, for comparison, with memory for --tau + 1 sums instead of 3.",
     "own", Kind::word, 0, 0, kLateSums},
    {"average-momentum", "YES",
     "Where models are averaged: whether the optimizer's state (momentum, Adam's moments) is averaged, too, in rounds "
     "of all ranks: yes or no. Takes as many bytes once more. easgd-grid: in the lines, too, where the momentum of SGD "
     "moves as the model does. Default no; wagma-quorum: yes.",
     "yes", Kind::word, 0, 0, kYesOrNo},
    {"momentum-exchange", "yes|no",
     "easgd-grid with --elastic-rule carry, for comparison: the momentum of SGD travels in the lines, whose ranks "
     "exchange it along a direction drawn for the round, as particles that collide. Default no.",
     "yes", Kind::word, 0, 0, kYesOrNo},
    {"average-statistics", "WHEN",
     "Where models are averaged: when the running statistics of BatchNorm become those over all ranks. full: in each "
     "round of all ranks; end (default): for checkpoints and at the end alone.",
     "full", Kind::word, 0, 0, kStatisticsAverages},
    {"ordering", "NAME",
     "sync: how ranks come to reduce the same gradients together, in the same order (docs/ordering.md); not to be "
     "confused with --order, in which a sum is added up. none (default): fixed buckets; coordinator: agreed on anew in "
     "every cycle, as by Horovod; gs: the same, all ranks sleeping equally long; nbcs: without waiting for the "
     "agreement; scp: with a core of its own for the background thread; topo: planned once, from what a step executes. "
     "gs+scp and nbcs+scp are possible. Default for models that sum over the ranks while they compute: topo.",
     "topo"},
    {"cycle-time", "TIME", "--ordering: from one agreement to the next at least. Default 5ms.", "1ms"},
    {"fusion-bytes", "SIZE",
     "--ordering: gradients that are reduced together have so many bytes at most. More are fewer messages, and wait "
     "for one another. Default 64MiB.",
     "1MiB"},
    {"gs-every", "N", "--ordering gs: cycles after which all ranks sleep equally long. Default 1.", "10", Kind::count,
     1, 1e9},
    {"cache-capacity", "N",
     "--ordering: gradients of which the ranks remember that they have agreed on them, 0: none; for others they send a "
     "message in each step. Default 1024.",
     "64", Kind::count, 0, 1e6},
    {"negotiation-wait", "HOW",
     "--ordering: how a rank waits for the others' agreement: sleep (default), or spin, as MPI does, which takes a "
     "core from computing.",
     "spin", Kind::word, 0, 0, kWaits},
    {"in-flight", "N", "--ordering: so many buffers are reduced at a time, each in memory of its own. Default 4.", "2",
     Kind::count, 1, 1024},
    {"cores", "SETS",
     "--ordering scp: the cores of application, input pipeline and background thread, as in app=0-2,input=3+4,bg=5. "
     "Default: one for the background thread, the others by the number of threads. shared: they may have some in "
     "common, where there are fewer than three. dynamic: none of its own for the background thread, which goes before "
     "the others.",
     "shared"},
    {"background-only", "yes|no",
     "--ordering: yes: a rank that waits leaves everything to its background thread, so that the two can be told "
     "apart; needs --progress-by thread. Default no; with scp yes.",
     "yes", Kind::word, 0, 0, kYesOrNo},
    {"scheduler-threads", "N",
     "--ordering: gradients are handed over by so many threads, in an order that differs between ranks, as those of "
     "frameworks do that schedule operations. Default 0: by the thread that computes, always in the same order.",
     "2", Kind::count, 0, 64},
    {"shuffle-ready", "SEED",
     "--ordering: gradients are handed over when all are computed, in an order drawn for each rank and step.", "1",
     Kind::count},
    {"plan-patience", "TIME",
     "--ordering topo: a rank that has waited so long for a gradient whose turn does not come leaves the plan, or ten "
     "times the longest wait of the step from which it was made. Default 200ms.",
     "1s"},
    {"on-change", "WHAT",
     "--ordering topo: what becomes of a job whose steps execute something else than planned: coordinator (default) "
     "orders until they are alike again; fail.",
     "fail", Kind::word, 0, 0, kOnChange},
    {"stall-warning", "TIME",
     "--ordering: after so long a line says which ranks a gradient waits for, and what they do. Default 10s.", "2s"},
    {"stall-abort", "TIME", "--ordering: after so long the job fails; 0: never. Default 60s.", "0"},
};

std::vector<AlgorithmOption>& options() {
  static std::vector<AlgorithmOption> all(std::begin(kOptions), std::end(kOptions));
  return all;
}

template <class Number>
std::optional<Number> parsed(const std::string& text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

std::optional<double> finite(const std::string& text) {
  const auto value = parsed<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::string expected(const AlgorithmOption& option) {
  std::string out;
  for (const std::string_view& word : option.words) {
    out += text(out.empty() ? "" : &word == &option.words.back() ? " or " : ", ", word);
  }
  if (option.kind == Kind::word) return out.empty() ? "a value" : out;
  if (option.kind == Kind::time) {
    const std::string from = option.least > 0 ? text("from ", to_text(from_seconds(option.least)), " to ") : "at most ";
    return text("a time with its unit (s, ms, us), ", from, to_text(kLongestDuration));
  }
  if (option.kind == Kind::bytes)
    return text("a size from ", option.least, " to below 1e15, in bytes, kB, KiB, MB, MiB, GB or GiB");
  if (option.least == std::numeric_limits<double>::min()) return "a number above 0";
  out = text(option.kind == Kind::count ? "a whole number" : "a number", " from ", option.least);
  return option.most < 1e9 ? text(out, " to ", option.most) : out;
}

bool fits(const AlgorithmOption& option, const std::string& value) {
  if (option.kind == Kind::word)
    return option.words.empty() ? !value.empty() : std::ranges::count(option.words, value) > 0;
  if (option.kind == Kind::time) {
    const auto time = parse_duration(value);
    return time && seconds(*time) >= option.least;
  }
  if (option.kind == Kind::bytes) return bytes_from_text(value).value_or(0) >= option.least;
  if (option.kind == Kind::count && !parsed<std::uint64_t>(value)) return false;
  const auto number = finite(value);
  return number && *number >= option.least && *number <= option.most;
}

}  // namespace

AlgorithmOptions::AlgorithmOptions(std::initializer_list<std::pair<std::string, std::string>> values) {
  for (const auto& [name, value] : values) set(name, value);
}

void AlgorithmOptions::set(const std::string& name, const std::string& value) {
  const auto known = std::ranges::find(algorithm_options(), name, &AlgorithmOption::name);
  if (known != algorithm_options().end()) check_value(*known, value);
  values_[name] = value;
}

void AlgorithmOptions::keep_only(std::span<const std::string_view> names) {
  std::erase_if(values_, [&](const auto& value) { return std::ranges::count(names, value.first) == 0; });
}

std::uint64_t AlgorithmOptions::count(std::string_view name, std::uint64_t fallback) const {
  const auto value = values_.find(name);
  if (value == values_.end()) return fallback;
  if (const auto number = parsed<std::uint64_t>(value->second)) return *number;
  throw UsageError(text(name, " ", value->second, ": expected a whole number"));
}

double AlgorithmOptions::number(std::string_view name, double fallback) const {
  const auto value = values_.find(name);
  if (value == values_.end()) return fallback;
  if (const auto number = finite(value->second)) return *number;
  throw UsageError(text(name, " ", value->second, ": expected a number"));
}

std::string AlgorithmOptions::word(std::string_view name, const std::string& fallback) const {
  const auto value = values_.find(name);
  return value == values_.end() ? fallback : value->second;
}

std::string AlgorithmOptions::to_string() const {
  std::string out;
  for (const auto& [name, value] : values_) out += text(out.empty() ? "" : " ", name, "=", value);
  return out;
}

std::span<const AlgorithmOption> algorithm_options() {
  return options();
}

void register_algorithm_option(const AlgorithmOption& option) {
  options().push_back(option);
}

void check_value(const AlgorithmOption& option, const std::string& value, std::string_view written) {
  if (fits(option, value)) return;
  const std::string_view name = written.empty() ? option.name : written;
  const char* space = name.ends_with('=') ? "" : " ";
  throw UsageError(text(name, space, value, ": expected ", expected(option), ", as in ", name, space, option.example));
}

}  // namespace stretto
