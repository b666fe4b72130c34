#include "stretto/dispenser/dispenser.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "stretto/base/error.h"

namespace stretto {
namespace {

constexpr std::string_view kWithLabels = "labels:";
constexpr int kDefaultLabels = 3;

DispenserPosition checked(DispenserPosition start, const BatchPlan& plan) {
  const auto ranks = static_cast<std::size_t>(plan.options().ranks);
  if (start.steps.size() != ranks) {
    throw UsageError(text("data position of ", start.steps.size(), " ranks: expected one of ", ranks));
  }
  const auto end = plan.num_batches();
  if (start.next > end || (!start.returned.empty() && start.returned.back() >= start.next)) {
    throw UsageError(text("data position at batch ", start.next, ": expected one of a job of ", end,
                          " batches; continue with at least as many steps or epochs"));
  }
  return start;
}

std::vector<std::uint64_t> returned_to(int rank, const DispenserPosition& start, Sharing sharing, int ranks) {
  if (!belongs_to_ranks(sharing)) return start.returned;
  std::vector<std::uint64_t> own;
  std::copy_if(start.returned.begin(), start.returned.end(), std::back_inserter(own), [&](std::uint64_t sequence) {
    return sequence % static_cast<std::uint64_t>(ranks) == static_cast<std::uint64_t>(rank);
  });
  return own;
}

/// The first batch from `next` on that this rank may get.
std::uint64_t first_after(int rank, std::uint64_t next, Sharing sharing, int ranks) {
  if (!belongs_to_ranks(sharing)) return next;
  const auto size = static_cast<std::uint64_t>(ranks);
  return next + (static_cast<std::uint64_t>(rank) + size - next % size) % size;
}

}  // namespace

const char* name_of(Sharing sharing) {
  switch (sharing) {
    case Sharing::shared: return "shared";
    case Sharing::partitioned: return "partitioned";
    case Sharing::sampled: return "sampled";
    case Sharing::ring: return "ring";
    case Sharing::labels: return "labels";
  }
  return "unknown";
}

Sharing parse_sharing(const std::string& name) {
  for (const Sharing sharing :
       {Sharing::shared, Sharing::partitioned, Sharing::ring, Sharing::sampled, Sharing::labels}) {
    if (name == name_of(sharing)) return sharing;
  }
  if (labels_a_rank(name) > 0) return Sharing::labels;
  throw UsageError(text("data '", name, "': expected shared, partitioned, ring, sampled or labels:K, as in labels:3"));
}

int labels_a_rank(const std::string& name) {
  if (name == name_of(Sharing::labels)) return kDefaultLabels;
  if (!name.starts_with(kWithLabels)) return 0;
  int number = 0;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kWithLabels.size(), end, number);
  return error == std::errc() && at == end && number > 0 ? number : 0;
}

bool belongs_to_ranks(Sharing sharing) {
  return sharing == Sharing::partitioned || sharing == Sharing::ring;
}

Dispenser::Dispenser(BatchPlan& plan, Sharing sharing, int rank, SharedCounter& counter)
    : Dispenser(plan, sharing, rank, counter, DispenserPosition(plan.options().ranks)) {}

Dispenser::Dispenser(BatchPlan& plan, Sharing sharing, int rank, SharedCounter& counter, DispenserPosition start)
    : plan_(plan),
      sharing_(sharing),
      rank_(rank),
      counter_(counter),
      first_new_(first_after(rank, checked(start, plan).next, sharing, plan.options().ranks)),
      first_step_(start.steps[static_cast<std::size_t>(rank)]),
      returned_(returned_to(rank, start, sharing, plan.options().ranks)) {
  if (sharing == Sharing::labels && !plan.has_parts()) {
    throw UsageError("data labels of samples without labels: expected one for each sample");
  }
}

std::optional<std::uint64_t> Dispenser::next_sequence() {
  if (at_end_) return std::nullopt;
  const bool own = belongs_to_ranks(sharing_);
  const std::uint64_t ticket = own ? taken_++ : counter_.fetch_add(1);
  if (ticket < returned_.size()) return returned_[ticket];
  const std::uint64_t stride = own ? static_cast<std::uint64_t>(plan_.options().ranks) : 1;
  const std::uint64_t sequence = first_new_ + (ticket - returned_.size()) * stride;
  at_end_ = sequence >= plan_.num_batches();
  if (at_end_) return std::nullopt;
  return sequence;
}

std::optional<BatchRef> Dispenser::next() {
  const auto sequence = next_sequence();
  if (!sequence) return std::nullopt;
  const BatchRef batch = batch_of(plan_, sharing_, *sequence, rank_, step());
  log_.handed_out.push_back(*sequence);
  return batch;
}

BatchRef batch_of(BatchPlan& plan, Sharing sharing, std::uint64_t sequence, int rank, std::uint64_t step) {
  switch (sharing) {
    case Sharing::sampled: return plan.sampled(sequence, rank, step);
    case Sharing::labels: return plan.of_part(sequence, rank, step);
    case Sharing::shared:
    case Sharing::partitioned:
    case Sharing::ring: break;
  }
  BatchRef batch = sharing == Sharing::ring ? plan.ring(sequence) : plan.batch(sequence);
  batch.step = step;
  return batch;
}

void Dispenser::deposited() {
  STRETTO_CHECK(log_.deposited < log_.handed_out.size(), "rank ", rank_, " deposited batch ", log_.deposited, " of ",
                log_.handed_out.size());
  ++log_.deposited;
}

}  // namespace stretto
