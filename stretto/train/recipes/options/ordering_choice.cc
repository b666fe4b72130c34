#include "stretto/train/recipes/options/ordering_choice.h"

#include <string>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/words.h"

namespace stretto {
namespace {

/// Options that mean nothing where nobody orders.
constexpr std::string_view kOfAnOrder[] = {"cycle-time",        "fusion-bytes",   "gs-every",    "cache-capacity",
                                           "negotiation-wait",  "in-flight",      "cores",       "shuffle-ready",
                                           "scheduler-threads", "stall-warning",  "stall-abort", "on-change",
                                           "plan-patience",     "background-only"};

Duration duration(const AlgorithmOptions& said, std::string_view name, Duration fallback) {
  return said.given(name) ? require_duration(std::string(name), said.word(name, "")) : fallback;
}

void require_order(const AlgorithmOptions& said) {
  for (const std::string_view name : kOfAnOrder) {
    if (!said.given(name)) continue;
    throw UsageError(
        text(name, " ", said.word(name, ""), " with ordering none: expected one that orders, such as --ordering topo"));
  }
}

std::uint64_t fusion_bytes(const AlgorithmOptions& said, std::uint64_t fallback) {
  if (!said.given("fusion-bytes")) return fallback;
  const std::string written = said.word("fusion-bytes", "");
  if (const auto bytes = bytes_from_text(written)) return *bytes;
  throw UsageError(text("fusion-bytes ", written, ": expected a size in bytes, KiB or MiB, as in 64MiB"));
}

}  // namespace

CoreSets cores_of(const AlgorithmOptions& said, std::span<const int> allowed, int input_threads) {
  const OrderingOptions ordering = OrderingOptions::named(said.word("ordering", std::string(kDefaultOrdering)));
  if (!ordering.own_cores) return {};
  const int threads = 1 + static_cast<int>(said.count("scheduler-threads", 0));
  return parse_core_sets(said.word("cores", ""), allowed, threads, input_threads);
}

OrderingChoice ordering_choice(const AlgorithmOptions& said, int ranks, std::string_view fallback) {
  OrderingChoice choice{.ordering = OrderingOptions::named(said.word("ordering", std::string(fallback)))};
  OrderingOptions& o = choice.ordering;
  if (o.kind == OrderingOptions::Kind::none) {
    require_order(said);
    return choice;
  }
  if (!o.own_cores && said.given("cores")) {
    throw UsageError(text("cores ", said.word("cores", ""), " with ordering ", o.name(),
                          ": expected scp, whose background thread has a core of its own"));
  }
  if (!o.name().starts_with("gs") && said.given("gs-every")) {
    throw UsageError(text("gs-every ", said.word("gs-every", ""), " with ordering ", o.name(),
                          ": expected gs, whose ranks sleep together"));
  }
  o.cycle_time = duration(said, "cycle-time", o.cycle_time);
  o.fusion_bytes = fusion_bytes(said, o.fusion_bytes);
  o.gs_every = static_cast<int>(said.count("gs-every", static_cast<std::uint64_t>(o.gs_every)));
  o.cache_capacity = static_cast<int>(said.count("cache-capacity", static_cast<std::uint64_t>(o.cache_capacity)));
  o.in_flight = static_cast<int>(said.count("in-flight", static_cast<std::uint64_t>(o.in_flight)));
  if (said.word("negotiation-wait", "sleep") == "spin") o.negotiation_wait = OrderingOptions::Waiting::spin;
  o.background_only = o.own_cores || said.given("cores") || said.word("background-only", "no") == "yes";
  o.plan_patience = duration(said, "plan-patience", o.plan_patience);
  o.stall_warning = duration(said, "stall-warning", o.stall_warning);
  o.stall_abort = duration(said, "stall-abort", o.stall_abort);
  if (said.word("on-change", "coordinator") == "fail") o.on_change = OrderingOptions::OnChange::fail;
  o.check(ranks);
  if (said.given("shuffle-ready")) choice.ready.shuffle = said.count("shuffle-ready", 0);
  choice.ready.threads = static_cast<int>(said.count("scheduler-threads", 0));
  return choice;
}

void require_helper(const AlgorithmOptions& said, int ranks, ProgressBy progress_by) {
  if (progress_by == ProgressBy::thread) return;
  const OrderingOptions ordering = ordering_choice(said, ranks).ordering;
  if (!ordering.background_only) return;
  throw UsageError(
      text(ordering.own_cores ? "ordering " + ordering.name() : "background-only yes",
           " with progress-by application: expected progress-by thread, whose helper thread drives while the "
           "application sleeps"));
}

}  // namespace stretto
