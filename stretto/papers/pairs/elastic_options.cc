#include "stretto/papers/pairs/elastic_options.h"

#include "stretto/base/error.h"

namespace stretto {

ElasticOptions elastic_options(const RecipeOptions& options, int ranks) {
  const double alpha = options.algorithm.number("alpha", 0.9 / ranks);
  const double beta = options.algorithm.number("beta", ranks * alpha);
  if (!(alpha > 0 && alpha <= 1 && alpha * ranks < 2)) {
    throw UsageError(text("alpha ", alpha, " with ", ranks, " ranks: expected above 0, at most 1, and below ",
                          2.0 / ranks, " (2 / ranks), as in alpha ", 0.9 / ranks));
  }
  if (!(beta > 0 && beta < 2 && beta <= ranks)) {
    throw UsageError(text("beta ", beta, " with ", ranks, " ranks: expected above 0, below 2, and at most ", ranks,
                          ", as in beta 0.9"));
  }
  return {.alpha = alpha, .beta = beta};
}

std::string elastic_warning(const ElasticOptions& options, int ranks) {
  if (options.alpha * ranks < 1) return {};
  return text("alpha ", options.alpha, " with ", ranks, " ranks: from ", 1.0 / ranks,
              " (1 / ranks) on the models swing about the center before they come closer; ", 0.9 / ranks,
              " is the default");
}

void check_elastic_options(const RecipeOptions& options, int ranks) {
  if (options.local_steps == 0) throw UsageError("elastic averaging: expected at least one step between two exchanges");
  (void)elastic_options(options, ranks);
}

}  // namespace stretto
