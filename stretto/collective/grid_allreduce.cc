#include "stretto/collective/grid_allreduce.h"

#include <algorithm>

#include "stretto/collective/rounds/lines/line_rounds.h"
#include "stretto/collective/rounds/lines/node_models.h"

namespace stretto {

class GridAllreduce::Impl {
 public:
  Impl(Engine& engine, const std::vector<BucketSpec>& buckets, const GridAllreduceOptions& options,
       const GridLayout& layout)
      : clock_(engine.clock()), buckets_(buckets), models_(buckets) {
    const Engine::Pause pause(engine);
    for (int dimension = 0; dimension < layout.dimensions(); ++dimension) {
      const auto is_mine = [&](const std::vector<int>& line) { return std::ranges::count(line, engine.rank()) > 0; };
      const auto lines = layout.lines(dimension);
      lines_.push_back(std::make_unique<LineRounds>(engine, text("grid line of dimension ", dimension), buckets,
                                                    options.line, *std::ranges::find_if(lines, is_mine), models_));
    }
  }

  int take(FunctionRef<void(const GridSlice&)> apply) {
    if (newest_ == nullptr) return 0;
    int rounds = 0;
    for (const auto& line : lines_) {
      for (const LineResult* result : line->take()) {
        ++rounds;
        hand_over(*result, apply);
      }
    }
    return rounds;
  }
  Contribution& acquire() {
    filling_ = &models_.acquire();
    return filling_->contribution;
  }
  void publish(Contribution* model, std::uint64_t steps) {
    if (model != nullptr) {
      StandingModel* const before = std::exchange(newest_, &models_.publish(*filling_, clock_.now()));
      if (before != nullptr) models_.unpin(*before);
    }
    if (newest_ == nullptr) return;
    for (const auto& line : lines_) line->applied(*newest_, steps);
  }
  bool at_rest() const {
    return std::ranges::all_of(lines_, [](const auto& line) { return line->at_rest(); });
  }
  bool stop(Driver& driver, TimePoint deadline) {
    for (const auto& line : lines_) line->stop();
    const auto is_over = [this] {
      return std::ranges::all_of(lines_, [](const auto& line) { return line->stopped() || line->failed(); });
    };
    return driver.wait(is_over, deadline);
  }
  std::optional<Error> failure() const {
    for (const auto& line : lines_) {
      if (auto why = line->failure()) return why;
    }
    return std::nullopt;
  }
  void abort(Driver& driver, const Error& why) {
    for (const auto& line : lines_) line->abort(driver, why);
  }
  std::uint64_t memory_bytes() const {
    int sets = models_.count();
    std::uint64_t slices = 0;
    for (const auto& line : lines_) {
      sets += line->num_results();
      slices += line->previous_bytes();
    }
    return static_cast<std::uint64_t>(sets) * Contribution::bytes_needed(buckets_) + slices;
  }
  GridCounts counts(int dimension) const { return lines_.at(static_cast<std::size_t>(dimension))->counts(); }
  std::vector<std::string> take_lines() {
    std::vector<std::string> out;
    for (const auto& line : lines_) {
      if (std::string said = line->take_line(); !said.empty()) out.push_back(std::move(said));
    }
    return out;
  }
  int num_models() const { return models_.count(); }
  int num_results() const {
    int most = 0;
    for (const auto& line : lines_) most = std::max(most, line->num_results());
    return most;
  }

 private:
  void hand_over(const LineResult& result, FunctionRef<void(const GridSlice&)> apply) const {
    const int nodes = static_cast<int>(result.who.size());
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      const int bucket = static_cast<int>(i);
      for (int slice = 0; slice < nodes; ++slice) {
        const RankSet& who = result.who[static_cast<std::size_t>(slice)];
        const Part of = part(buckets_[i].count, slice, nodes);
        if (who.count() == 0 || of.count() == 0) continue;
        const std::uint64_t at = of.begin * size_of(buckets_[i].type);
        const bool is_in = result.brought != nullptr && who.contains(result_rank());
        apply({.bucket = i,
               .offset = of.begin,
               .count = of.count(),
               .sum = result.sums.bucket(bucket).data() + at,
               .brought = is_in ? result.brought->contribution.bucket(bucket).data() + at : nullptr,
               .members = who.count()});
      }
    }
  }
  int result_rank() const { return lines_.front()->rank(); }

  const Clock& clock_;
  const std::vector<BucketSpec> buckets_;
  NodeModels models_;
  StandingModel* filling_ = nullptr;
  StandingModel* newest_ = nullptr;  // pinned
  std::vector<std::unique_ptr<LineRounds>> lines_;
};

GridAllreduce::GridAllreduce(Engine& engine, const std::vector<BucketSpec>& buckets,
                             const GridAllreduceOptions& options)
    : layout_(engine.size(), options.grid) {
  options.line.require();
  std::uint64_t elements = 0;
  for (const BucketSpec& bucket : buckets) elements += bucket.count;
  layout_.require_elements(elements);
  impl_ = std::make_unique<Impl>(engine, buckets, options, layout_);
}

GridAllreduce::~GridAllreduce() = default;

int GridAllreduce::take(FunctionRef<void(const GridSlice&)> apply) {
  return impl_->take(apply);
}
Contribution& GridAllreduce::acquire() {
  return impl_->acquire();
}
void GridAllreduce::publish(Contribution* model, std::uint64_t steps) {
  impl_->publish(model, steps);
}
std::vector<std::string> GridAllreduce::take_lines() {
  return impl_->take_lines();
}
GridCounts GridAllreduce::counts(int dimension) const {
  return impl_->counts(dimension);
}
bool GridAllreduce::at_rest() const {
  return impl_->at_rest();
}
bool GridAllreduce::stop(Driver& driver, TimePoint deadline) {
  return impl_->stop(driver, deadline);
}
std::optional<Error> GridAllreduce::failure() const {
  return impl_->failure();
}
void GridAllreduce::abort(Driver& driver, const Error& why) {
  impl_->abort(driver, why);
}
std::uint64_t GridAllreduce::memory_bytes() const {
  return impl_->memory_bytes();
}
int GridAllreduce::num_models() const {
  return impl_->num_models();
}
int GridAllreduce::num_results() const {
  return impl_->num_results();
}

}  // namespace stretto
