#include "stretto/train/loop/session_options.h"

#include <cstdio>

#include "stretto/base/error.h"

namespace stretto {
namespace {

constexpr std::uint64_t kLocalSteps = 8;

}  // namespace

SessionOptions session_options(const DistributedOptions& o, int ranks) {
  if (o.max_lag < 1) throw UsageError(text("max-lag ", o.max_lag, ": expected at least 1"));
  if (o.overlap && o.normalize == Normalize::samples) {
    throw UsageError("overlap with normalize samples: expected another, since step() says the samples only afterwards");
  }
  const Algorithm algorithm = parse_algorithm(o.algorithm, ranks, o.quorum, o.recipe);
  const std::string_view name = algorithm.recipe->name;
  if (o.recipe != nullptr && algorithm.recipe != o.recipe) {
    throw UsageError(text("recipe '", o.recipe->name, "' with algorithm '", o.algorithm, "': expected algorithm '",
                          o.recipe->name, "'"));
  }
  if (o.overlap && name != "sync") {
    throw UsageError(text("overlap with algorithm '", o.algorithm, "': expected sync, the only one that can"));
  }
  if (o.quorum != 0 && o.algorithm != "eager-quorum") {
    throw UsageError(text("quorum ", o.quorum, " with algorithm '", o.algorithm, "': expected eager-quorum alone"));
  }
  if (o.sync_every != 0 && name != "local") {
    throw UsageError(text("sync_every ", o.sync_every, " with algorithm '", o.algorithm, "': expected local"));
  }
  if (o.normalize == Normalize::ranks && name == "local") {
    throw UsageError(
        "normalize ranks with algorithm 'local': expected contributors or samples, which it averages over");
  }
  return {.recipe = algorithm.recipe,
          .recipe_options = {.policy = algorithm.policy,
                             .normalize = o.normalize.value_or(Normalize::ranks),
                             .order = o.fixed_order ? SumOrder::fixed : SumOrder::arrival,
                             .max_lag = o.max_lag,
                             .seed = o.seed,
                             .full_every = algorithm.policy.kind == Policy::Kind::full ? 0 : o.full_every,
                             .local_steps = o.sync_every != 0 ? o.sync_every : kLocalSteps,
                             .overlap = o.overlap,
                             .notes = true},
          .progress_by = o.progress_by,
          .tell = [](Round, const std::string& line) { std::fprintf(stderr, "stretto: %s\n", line.c_str()); }};
}

std::string describe(const DistributedOptions& o) {
  return text(o.algorithm, " quorum=", o.quorum, " max-lag=", o.max_lag,
              " normalize=", static_cast<int>(o.normalize.value_or(Normalize::ranks)), " fixed=", o.fixed_order,
              " sync-every=", o.sync_every, " lr-schedule=", o.lr_schedule, " seed=", o.seed,
              " clip-norm=", o.clip_norm, " full-every=", o.full_every, " bucket=", o.bucket_bytes);
}

}  // namespace stretto
