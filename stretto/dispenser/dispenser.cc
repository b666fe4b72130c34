#include "stretto/dispenser/dispenser.h"

#include <algorithm>
#include <iterator>

#include "stretto/base/error.h"

namespace stretto {
namespace {

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
  }
  return "unknown";
}

Sharing parse_sharing(const std::string& name) {
  for (const Sharing sharing : {Sharing::shared, Sharing::partitioned, Sharing::sampled, Sharing::ring}) {
    if (name == name_of(sharing)) return sharing;
  }
  throw UsageError(text("data '", name, "': expected shared, partitioned, sampled or ring"));
}

bool belongs_to_ranks(Sharing sharing) {
  return sharing == Sharing::partitioned || sharing == Sharing::ring;
}

BatchRef batch_of(BatchPlan& plan, Sharing sharing, std::uint64_t sequence, int rank, std::uint64_t step) {
  BatchRef batch = sharing == Sharing::sampled ? plan.sampled(sequence, rank, step)
                   : sharing == Sharing::ring  ? plan.ring(sequence)
                                               : plan.batch(sequence);
  batch.step = step;
  return batch;
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
      returned_(returned_to(rank, start, sharing, plan.options().ranks)) {}

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

void Dispenser::deposited() {
  STRETTO_CHECK(log_.deposited < log_.handed_out.size(), "rank ", rank_, " deposited batch ", log_.deposited, " of ",
                log_.handed_out.size());
  ++log_.deposited;
}

}  // namespace stretto
