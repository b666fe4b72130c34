#include "stretto/train/options/option_table.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <type_traits>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/membership/hosts/settings.h"
#include "stretto/transport/job_memory.h"

namespace stretto {
namespace {

using Kind = AlgorithmOption::Kind;

constexpr int kMostRanks = JobMemory::kMaxRanks;

constexpr std::string_view kNoOrYes[] = {"false", "true"};
constexpr std::string_view kNormalize[] = {"ranks", "contributors", "samples"};
constexpr std::string_view kEvaluated[] = {"average", "replica"};
constexpr std::string_view kFinalModels[] = {"average", "best", "rank0"};
constexpr std::string_view kOrders[] = {"arrival", "fixed"};
constexpr std::string_view kDeliveries[] = {"every", "latest"};
constexpr std::string_view kRecords[] = {"gathered", "local"};
constexpr std::string_view kHelpers[] = {"thread", "application"};

using Train = TrainOptions;
using Loop = DistributedOptions;

constexpr std::monostate kNone;

constexpr JobOption kOptions[] = {
    {&Train::workload, kNone, "", "workload", "", "", "vowels"},
    {&Train::algorithm, &Loop::algorithm, "The algorithm", "algorithm", "NAME", "One of those below. Default sync.",
     "sync"},
    {&Train::ranks, kNone, "The job", "ranks", "N",
     "How many worker processes. Default 4; under mpirun, srun and torchrun as many as they have started, if more than "
     "one. MIN:MAX, as in 2:8, begins with MAX, and goes on without those that are lost while MIN are left.",
     "4", Kind::count, 1, kMostRanks},
    {&Train::least, kNone, "", "least", "", "", "2", Kind::count, 0, kMostRanks},
    {&Train::steps, kNone, "The job", "steps", "N", "Stop after N × ranks batches in all, whoever computes them.",
     "200", Kind::count, 1},
    {&Train::epochs, kNone, "The job", "epochs", "N",
     "Stop after N passes over the training data in all. Default: the workload's.", "10", Kind::count, 1},
    {&Train::batch, kNone, "The job", "batch", "N", "Samples a batch and rank. Default: the workload's.", "4",
     Kind::count, 1, 1 << 20},
    {&Train::lr, kNone, "The job", "lr", "X", "Learning rate of the averaged gradient. Default: the workload's.", "0.1",
     Kind::number, std::numeric_limits<double>::min(), std::numeric_limits<double>::max()},
    {&Train::lr_schedule, &Loop::lr_schedule, "The job", "lr-schedule", "S",
     "constant (default); warmup:100 rises over so many steps; decay:10@400@800 divides by 10 at each of these steps; "
     "joined by +. A step is as many batches as there are ranks.",
     "warmup:100"},
    {&Train::momentum, kNone, "The job", "momentum", "X", "Of SGD. Default: the workload's.", "0.9", Kind::number, 0,
     0.9999},
    {&Train::seed, &Loop::seed, "The job", "seed", "N",
     "Of the model, the order of the data and the injected delays. Default 1.", "1", Kind::count},
    {&Train::data, kNone, "The job", "data", "KIND",
     "Who gets which batch. shared: whoever is ready takes the next, so that no rank runs out before the others; "
     "partitioned: fixed, so that a run repeats to the bit; ring: fixed, too, each rank's samples in the next pass "
     "those of the rank before it (GossipGraD); sampled: drawn with replacement; labels:K: each rank's from a part of "
     "the data that has K of the labels at most (labels: 3), so that ranks learn different things. Default: shared "
     "where rounds do not wait for all ranks, partitioned for the others.",
     "shared"},
    {&Train::quorum, &Loop::quorum, "How it averages", "quorum", "N",
     "eager-quorum: a round starts when so many ranks have come. The dial between waiting and staleness: P waits for "
     "all, as sync does; 1 for nobody, as eager-solo. Default: half of the ranks.",
     "2", Kind::count, 1, kMostRanks},
    {&Train::max_lag, &Loop::max_lag, "How it averages", "max-lag", "N",
     "No gradient is staler than N rounds. A rank k times slower than the rest needs N ≥ k + 1 to slow nobody; memory "
     "grows with N. Default 4.",
     "4", Kind::count, 1, 1024},
    {&Train::seats, &Loop::seats, "How it averages", "seats", "N",
     "Ranks that meet in the memory they share: all of a host (default), or so many at each board, fewer at the last "
     "and where a host has fewer, with messages between the boards. 1: messages alone, as between hosts.",
     "1", Kind::count, 1, kMostRanks},
    {&Train::normalize, &Loop::normalize, "How it averages", "normalize", "BY",
     "What divides the sum of the gradients: ranks (default, as in the papers), contributors (those that brought "
     "something; diloco: phases of --sync-every steps), samples (unequal batches are unbiased).",
     "samples", Kind::word, 0, 0, kNormalize},
    {&Train::evaluate_every, kNone, "How it averages", "evaluate-every", "N",
     "Rank 0 copies a model once N more batches have been applied, and a thread of its own evaluates it on test and "
     "training data while all ranks go on: a curve in summary.json. Default: none while the run goes on.",
     "1000", Kind::count, 1},
    {&Train::evaluate, kNone, "How it averages", "evaluate", "WHAT",
     "With --evaluate-every. average (default): at the first round after which all ranks have the same weights; where "
     "models are averaged under a policy such rounds are made. replica: rank 0's as it is.",
     "replica", Kind::word, 0, 0, kEvaluated},
    {&Train::final_model, kNone, "How it averages", "final", "MODEL",
     "Which model counts at the end. average (default): that of all ranks. best: of those evaluated that with the "
     "lowest training loss. rank0: that rank's before the last average, where models are averaged.",
     "best", Kind::word, 0, 0, kFinalModels},
    {&Train::fixed_order, kNone, "How it averages", "order", "ORDER",
     "arrival (default): sums in the order in which contributions come. fixed: one order, so that runs repeat to the "
     "bit; sync always has it. Not to be confused with --ordering: which gradients are summed when.",
     "fixed", Kind::word, 0, 0, kOrders},
    {&Train::delivery, kNone, "How it averages", "delivery", "WHAT",
     "every (default): each rank applies every round, so replicas never diverge. latest: only the newest, as in the "
     "paper; replicas drift until --sync-every brings them together.",
     "latest", Kind::word, 0, 0, kDeliveries},
    {&Train::sync_every, &Loop::sync_every, "How it averages", "sync-every", "N",
     "Batches between rounds that wait for all. local, diloco: batches of each rank between two rounds (H, default 8). "
     "easgd, easgd-async: between two exchanges (default 10). d-psgd, sgp, osgp, gossip-grad, ad-psgd: between two "
     "averages of all (default: as often as --checkpoint-every and --evaluate average want one, else only at the end). "
     "ps-sync, ps-async, ssp, k-sync: between two points at which all ranks have the same weights (default: the same).",
     "1000", Kind::count, 1},
    {&Train::progress_by, kNone, "How it averages", "progress-by", "WHO",
     "thread (default): a helper thread takes part in rounds while the rank computes. application: only inside calls, "
     "so a rank that computes holds up the others.",
     "application", Kind::word, 0, 0, kHelpers},
    {&Train::liveness, kNone, "Between hosts", "liveness", "TIME",
     "A host of which nothing comes for so long is lost; the same on all ranks. A shorter time hears sooner of a host "
     "that has no power, a longer one outlives longer breaks of a link. Default: that of STRETTO_LIVENESS, or 10s.",
     "5s", Kind::time, 1},
    {&Train::between, kNone, "Between hosts", "between", "ENGINE",
     "What moves messages between hosts; the same on all ranks. tcp. ucx: UCX, which every host needs in the same "
     "version. auto: ucx where every host has an active port for RDMA, else tcp. mpi: the MPI whose mpirun or "
     "mpiexec has started the ranks. Default: that of STRETTO_BETWEEN, or tcp.",
     "tcp", Kind::word, 0, 0, kCarriers},
    {kNone, &Loop::fixed_order, "", "fixed-order", "", "", "true", Kind::word, 0, 0, kNoOrYes},
    {kNone, &Loop::overlap, "", "overlap", "", "", "true", Kind::word, 0, 0, kNoOrYes},
    {kNone, &Loop::clip_norm, "", "clip-norm", "X", "", "1", Kind::number},
    {kNone, &Loop::full_every, "", "full-every", "N", "", "200", Kind::count},
    {kNone, &Loop::bucket_bytes, "", "bucket-bytes", "SIZE", "", "4194304", Kind::count},
    {&Train::imbalance, kNone, "Who is slow", "imbalance", "SPEC",
     "Delays injected on top of what the data brings: none (default), random:ranks=1,delay=200ms, rotate:50ms..400ms, "
     "linear:1ms..32ms, persistent:rank=3,factor=3 (or delay=40ms), lognormal:mean=20ms,cv=1, trace:FILE, measured "
     "ones (ucf101, wmt16, cloud, habitat, with scale=0.1), and sums of them with +.",
     "linear:1ms..32ms"},
    {&Train::pace, kNone, "Who is slow", "pace", "TIME",
     "Emulates an accelerator: a step takes this long for each unit of work (a padded time step of a sequence, an "
     "image, a row), by sleeping the rest. So that many ranks on few cores show the algorithm and not the scheduler.",
     "50us", Kind::time},
    {&Train::time_scale, kNone, "", "time-scale", "X", "", "0.1", Kind::number},
    {&Train::input_threads, kNone, "Who is slow", "input-threads", "N",
     "Emulates an input pipeline: so many threads of each rank burn --input-load for the next batch while this one is "
     "computed, and take cores from it. A step waits for its own batch. Default 0.",
     "2", Kind::count, 1, 1024},
    {&Train::input_load, kNone, "Who is slow", "input-load", "TIME",
     "With --input-threads: processor time that all of them burn for a batch.", "20ms", Kind::time},
    {&Train::simulated, kNone, "In virtual time", "simulated", "",
     "All ranks in one process, on a virtual clock: the gradients are real, and a step takes what --pace and "
     "--imbalance say, a message what --network says. The same seed gives the same bits on any number of cores.",
     "true", Kind::word, 0, 0, kNoOrYes},
    {&Train::network, kNone, "In virtual time", "network", "SPEC",
     "Between the ranks, one on each host: latency=TIME, bandwidth=RATE of a host's card in each direction, "
     "overhead=TIME of a message at its sender, jitter=TIME, sharing=fifo or fair, unevenness=NUMBER. Default "
     "latency=1us,bandwidth=10GB/s,overhead=100ns.",
     "latency=1us,bandwidth=10GB/s"},
    {&Train::churn, kNone, "In virtual time", "churn", "SPEC",
     "With --ranks MIN:MAX: how members come and go, drawn by the seed: life=TIME, the mean that each lives, "
     "notice=SHARE of them that leave in order, the others are lost, back=TIME until another one comes in its place "
     "(0s; never), detect=TIME until a loss is known (0s), loss=RANK@TIME and leave=RANK@TIME of one.",
     "life=2h,notice=0.5"},
    {&Train::no_gradients, kNone, "In virtual time", "no-gradients", "",
     "Compute nothing: throughput alone, of more ranks in less time.", "true", Kind::word, 0, 0, kNoOrYes},
    {&Train::model_bytes, kNone, "In virtual time", "model-bytes", "SIZE",
     "With --no-gradients: bytes of the model whose messages take their time. Default: the workload's.", "100MiB",
     Kind::bytes, 1},
    {&Train::model_buckets, kNone, "In virtual time", "model-buckets", "N",
     "With --no-gradients: the model is in so many buckets of equal size, which servers share out. Default: 1.", "8",
     Kind::count, 1, kMostModelBuckets},
    {&Train::compute_threads, kNone, "In virtual time", "compute-threads", "N",
     "So many ranks compute at once. Default: as many as there are cores. Changes no result.", "2", Kind::count, 1,
     kMostRanks},
    {&Train::out, kNone, "What it leaves behind", "out", "DIR",
     "Run folder: configuration, a record of every step and rank (JSON lines), summary.json, curves, and trace.json, "
     "which https://ui.perfetto.dev opens.",
     "runs/first"},
    {&Train::local_records, kNone, "What it leaves behind", "records", "WHERE",
     "On hosts that do not see rank 0's DIR: gathered (default) brings records and trace there at the end; local "
     "leaves "
     "them in DIR on their own host.",
     "local", Kind::word, 0, 0, kRecords},
    {&Train::timeline, kNone, "What it leaves behind", "timeline", "",
     "--ordering: trace.json has a track for each gradient of each rank, with QUEUE, NEGOTIATE, FUSE and TRANSFER "
     "(docs/ordering.md). Four lines a gradient and step, of 120 bytes each.",
     "true", Kind::word, 0, 0, kNoOrYes},
    {&Train::checkpoint_every, kNone, "What it leaves behind", "checkpoint-every", "N",
     "Batches between checkpoints, in the run folder. Each is a round that waits for all.", "1000", Kind::count, 1},
    {&Train::resume, kNone, "What it leaves behind", "resume", "DIR",
     "Continues the run of this folder from its last checkpoint.", "runs/first"},
};

template <class Options>
constexpr auto kPlace = &JobOption::train;
template <>
constexpr auto kPlace<Loop> = &JobOption::loop;

/// Calls `use` with the member of `options` that the option stands in, if there is one.
template <class Options, class Use>
void with_member(const JobOption& option, Options& options, const Use& use) {
  const auto call = [&](auto member) {
    if constexpr (!std::is_same_v<decltype(member), std::monostate>) use(options.*member);
  };
  std::visit(call, option.*kPlace<std::remove_const_t<Options>>);
}

template <class T>
std::string text_of(const JobOption& option, const T& value) {
  if constexpr (requires { value.has_value(); }) {
    return value ? text_of(option, *value) : std::string();
  } else if constexpr (std::is_same_v<T, Duration>) {
    return to_text(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>) {
    return std::string(option.words[static_cast<std::size_t>(value)]);
  } else {
    char digits[32];
    return {digits, std::to_chars(digits, std::end(digits), value).ptr};
  }
}

// Requires: check_value() takes the text.
template <class T>
void read(const JobOption& option, const std::string& text, T& value) {
  if constexpr (requires { value.emplace(); }) {
    read(option, text, value.emplace());
  } else if constexpr (std::is_same_v<T, Duration>) {
    value = *parse_duration(text);
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = text;
  } else if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>) {
    value = static_cast<T>(std::ranges::find(option.words, text) - option.words.begin());
  } else if (option.kind == Kind::bytes) {
    value = static_cast<T>(*bytes_from_text(text));
  } else {
    std::from_chars(text.data(), text.data() + text.size(), value);
  }
}

}  // namespace

std::span<const JobOption> job_options() {
  return kOptions;
}

std::string JobOption::key() const {
  std::string key(name);
  std::ranges::replace(key, '-', '_');
  return key;
}

template <class Options>
std::string JobOption::value_in(const Options& options) const {
  std::string out;
  with_member(*this, options, [&](const auto& member) { out = text_of(*this, member); });
  return out;
}

template <class Options>
void JobOption::set(Options& options, std::string_view written, const std::string& text) const {
  check_value(*this, text, written);
  with_member(*this, options, [&](auto& member) { read(*this, text, member); });
}

template <class Options>
void check_values(const Options& options, int ranks) {
  for (const JobOption& option : kOptions) {
    if (option.kind != Kind::count && option.kind != Kind::word) continue;
    const std::string value = option.value_in(options);
    if (value != option.value_in(Options())) check_value(option, value);
  }
  if (options.seats <= ranks) return;
  throw UsageError(text("seats ", options.seats, ": expected a number from 1, for messages alone, to ", ranks,
                        ", the number of ranks"));
}

template void JobOption::set(Train&, std::string_view, const std::string&) const;
template void JobOption::set(Loop&, std::string_view, const std::string&) const;
template std::string JobOption::value_in(const Train&) const;
template std::string JobOption::value_in(const Loop&) const;
template void check_values(const Train&, int);
template void check_values(const Loop&, int);

}  // namespace stretto
