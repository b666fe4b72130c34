#include "stretto/check/ordering/ordering_job.h"

#include <algorithm>
#include <cstdlib>

#include "stretto/base/random.h"
#include "stretto/base/words.h"

namespace stretto {
namespace {

constexpr std::uint64_t kStream = 0x6f72646572;
constexpr std::uint64_t kOmissions = kStream + 1, kValues = kStream + 2;

/// What one thread waits for that goes through all tensors which something depends on, in their order.
void wait_in_order(OrderingJob::Program& program) {
  std::vector<int> awaited;
  for (const auto& parents : program.parents) awaited.insert(awaited.end(), parents.begin(), parents.end());
  std::ranges::sort(awaited);
  awaited.erase(std::unique(awaited.begin(), awaited.end()), awaited.end());
  for (auto& parents : program.parents) {
    if (parents.empty()) continue;
    const int last = std::ranges::max(parents);
    parents.assign(awaited.begin(), std::ranges::upper_bound(awaited, last));
  }
}

OrderingJob::Program draw_program(Random& random, int tensors, bool several_threads) {
  OrderingJob::Program program;
  const double density = random.uniform() * 0.5;
  for (int to = 0; to < tensors; ++to) {
    program.parents.emplace_back();
    for (int from = 0; from < to; ++from) {
      if (random.chance(density)) program.parents.back().push_back(from);
    }
  }
  program.waits_at_end = random.chance(0.4);
  if (!several_threads) wait_in_order(program);
  return program;
}

void draw_sets(OrderingJob& job, Random& random, int ranks) {
  job.sets.resize(static_cast<std::size_t>(random.chance(0.5) ? 1 : random.between(2, 3)));
  for (std::size_t set = 0; set < job.sets.size(); ++set) {
    for (int rank = 0; rank < ranks; ++rank) {
      if (set == 0 || random.chance(0.7)) job.sets[set].push_back(rank);
    }
    if (job.sets[set].empty())
      job.sets[set].push_back(static_cast<int>(random.below(static_cast<std::uint64_t>(ranks))));
  }
}

void draw_mishap(OrderingJob& job, Random& random) {
  const auto drawn_rank = [&] { return static_cast<int>(random.below(job.steps_of.size())); };
  const int tensors = static_cast<int>(job.tensors.size());
  const auto drawn_tensor = [&] { return static_cast<int>(random.below(job.tensors.size())); };
  const std::uint64_t step = random.below(4);
  if (random.chance(0.5)) {
    job.unlike = {drawn_rank(), step, drawn_tensor()};
  } else if (tensors > 1) {
    job.contrary = {drawn_rank(), step, static_cast<int>(random.below(job.tensors.size() - 1)), tensors - 1};
    for (OrderingJob::Program& program : job.programs) program.parents.back() = {job.contrary.tensor};
  }
}

}  // namespace

OrderingJob draw_ordering_job(std::uint64_t seed, int ranks, const ChangedCoordinator& changed) {
  Random random(seed, kStream);
  OrderingJob job{.seed = seed, .changed = changed};
  if (ranks == 0) ranks = static_cast<int>(random.between(2, 5));
  draw_sets(job, random, ranks);
  const int tensors = static_cast<int>(random.between(1, 7));
  for (int t = 0; t < tensors; ++t) {
    TensorDescription tensor{.name = text("t", t), .set = static_cast<int>(random.below(job.sets.size()))};
    tensor.count = random.log_uniform(1, 12);
    if (random.chance(0.15)) tensor.type = DataType::float64;
    if (random.chance(0.1)) tensor.fuses = false;
    job.tensors.push_back(tensor);
  }
  const bool dynamic = random.chance(0.5);
  job.several_threads = random.chance(0.5);
  job.programs.push_back(draw_program(random, tensors, job.several_threads));
  if (dynamic && random.chance(0.5)) {
    job.programs.push_back(draw_program(random, tensors, job.several_threads));
    job.changes_every = static_cast<std::uint64_t>(random.between(1, 4));
  }
  const std::uint64_t most = static_cast<std::uint64_t>(random.between(2, 7));
  const bool equal = random.chance(0.5);
  for (int rank = 0; rank < ranks; ++rank) job.steps_of.push_back(equal ? most : random.below(most + 1));

  job.topo = changed.fix == nullptr && random.chance(0.5);
  job.cache_capacity = random.chance(0.15)  ? 0
                       : random.chance(0.5) ? 64
                                            : static_cast<std::uint64_t>(random.between(1, 4));
  job.fusion_bytes = random.log_uniform(8, 200);
  job.in_flight = static_cast<int>(random.between(1, 4));
  const bool waits = !job.topo && (changed.fix == nullptr || changed.fix->waits);
  job.one_thread = job.sets.size() > 1 && waits && random.chance(0.3);
  if (random.chance(0.5)) {
    job.omits = random.uniform() * 0.4;
    job.omits_always = !dynamic;
  }
  if (dynamic && random.chance(0.5)) job.resized_from = static_cast<std::uint64_t>(random.between(1, 4));
  if (dynamic && random.chance(0.1)) draw_mishap(job, random);
  return job;
}

bool OrderingJob::member(int set, int rank) const {
  return std::ranges::binary_search(sets[static_cast<std::size_t>(set)], rank);
}

bool OrderingJob::is_static() const {
  return changes_every == 0 && resized_from == 0 && (omits == 0 || omits_always) && contrary.rank < 0 &&
         unlike.rank < 0;
}

bool OrderingJob::is_uniform() const {
  return is_static() && omits == 0 &&
         std::ranges::all_of(sets, [&](const auto& set) { return set.size() == steps_of.size(); }) &&
         std::ranges::count(steps_of, steps_of[0]) == static_cast<std::ptrdiff_t>(steps_of.size());
}

const OrderingJob::Program& OrderingJob::program(std::uint64_t step) const {
  return programs[changes_every == 0 ? 0 : step / changes_every % 2];
}

bool OrderingJob::submits(int rank, std::uint64_t step, int tensor) const {
  const auto r = static_cast<std::size_t>(rank), t = static_cast<std::size_t>(tensor);
  if (step >= steps_of[r] || !member(tensors[t].set, rank)) return false;
  if (omits == 0 || !leaf(tensor)) return true;
  const std::uint64_t index = ((omits_always ? 0 : step) * 64 + r) * 64 + t;
  return static_cast<double>(random_bits(seed, kOmissions, index) >> 11) * 0x1p-53 >= omits;
}

bool OrderingJob::leaf(int tensor) const {
  return std::ranges::none_of(programs, [&](const Program& one) {
    return one.waits_at_end ||
           std::ranges::any_of(one.parents, [&](const auto& of) { return std::ranges::count(of, tensor) > 0; });
  });
}

TensorDescription OrderingJob::described(int rank, std::uint64_t step, int tensor) const {
  TensorDescription description = tensors[static_cast<std::size_t>(tensor)];
  if (resized_from > 0 && step >= resized_from && tensor % 2 == 0) description.count += 1;
  if (rank == unlike.rank && step == unlike.step && tensor == unlike.tensor) description.count += 2;
  return description;
}

std::vector<int> OrderingJob::parents(int rank, std::uint64_t step, int tensor) const {
  std::vector<int> all = program(step).parents[static_cast<std::size_t>(tensor)];
  if (rank == contrary.rank && step == contrary.step) {
    if (tensor == contrary.other) all = {};
    if (tensor == contrary.tensor) all = {contrary.other};
  }
  std::erase_if(all, [&](int parent) { return !submits(rank, step, parent); });
  return all;
}

ExecutedGraph OrderingJob::executed(int rank, std::uint64_t step) const {
  ExecutedGraph graph;
  std::vector<ExecutedGraph::Node> node_of(tensors.size());
  for (int t = 0; t < static_cast<int>(tensors.size()); ++t) {
    if (!submits(rank, step, t)) continue;
    node_of[static_cast<std::size_t>(t)] = graph.num_nodes;
    graph.collectives.push_back({graph.num_nodes++, described(rank, step, t)});
  }
  const ExecutedGraph::Node end = graph.num_nodes++;
  for (int t = 0; t < static_cast<int>(tensors.size()); ++t) {
    if (!submits(rank, step, t)) continue;
    const ExecutedGraph::Node node = node_of[static_cast<std::size_t>(t)];
    for (const int parent : parents(rank, step, t))
      graph.edges.push_back({node_of[static_cast<std::size_t>(parent)], node});
    if (waits_at_end(step)) graph.edges.push_back({node, end});
  }
  return graph;
}

std::uint64_t OrderingJob::value(int rank, std::uint64_t step, int tensor) const {
  const auto index = (step * 64 + static_cast<std::uint64_t>(rank)) * 64 + static_cast<std::uint64_t>(tensor);
  return random_bits(seed, kValues, index) % 1'000'003;
}

std::uint64_t OrderingJob::expected(std::uint64_t step, int tensor) const {
  std::uint64_t sum = 0;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (submits(rank, step, tensor)) sum += value(rank, step, tensor);
  }
  return sum;
}

int OrderingJob::number_of(const std::string& name) const {
  return std::atoi(name.c_str() + 1);
}

std::string OrderingJob::to_string() const {
  std::string out = topo ? "topo" : "coordinator";
  if (changed.fix != nullptr) out += text(", ", changed.fix->name, " every ", changed.every);
  out += text(", cache ", cache_capacity, ", buffers of ", fusion_bytes, " bytes");
  if (topo) out += text(", ", in_flight, " in flight");
  if (several_threads) out += ", several threads";
  if (one_thread) out += ", sets one after the other";
  out += ", sets";
  for (const auto& set : sets) {
    out += " {";
    for (const int rank : set) out += text(rank == set.front() ? "" : " ", rank);
    out += "}";
  }
  out += ", tensors";
  for (const TensorDescription& tensor : tensors) {
    out += text(" ", tensor.name, "/", tensor.set, ":", tensor.bytes(), tensor.fuses ? "" : "!");
  }
  for (const Program& one : programs) {
    out += ", after";
    for (std::size_t t = 0; t < one.parents.size(); ++t) {
      for (const int parent : one.parents[t]) out += text(" ", parent, "-", t);
    }
    if (one.waits_at_end) out += " end";
  }
  out += ", steps";
  for (const std::uint64_t steps : steps_of) out += text(" ", steps);
  if (changes_every > 0) out += text(", changes every ", changes_every);
  if (omits > 0) out += text(", omits ", omits, omits_always ? " always" : "");
  if (resized_from > 0) out += text(", resized from ", resized_from);
  if (contrary.rank >= 0) out += text(", rank ", contrary.rank, " contrary in step ", contrary.step);
  if (unlike.rank >= 0) out += text(", rank ", unlike.rank, " unlike in step ", unlike.step, " t", unlike.tensor);
  return out;
}

}  // namespace stretto
