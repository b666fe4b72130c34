#include "stretto/collective/grid_allreduce.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "stretto/base/mutex.h"
#include "stretto/collective/rounds/lines/line_rounds.h"
#include "stretto/collective/rounds/lines/node_models.h"

namespace stretto {

class GridAllreduce::Impl {
 public:
  Impl(const Clock& clock, bool come_and_go, const std::vector<BucketSpec>& buckets,
       const GridAllreduceOptions& options)
      : clock_(clock),
        come_and_go_(come_and_go),
        buckets_(buckets),
        grid_(options.grid),
        options_(options.line),
        dimensions_(std::clamp(options.grid.dimensions, 1, 30)),
        models_(buckets),
        seats_(static_cast<std::size_t>(dimensions_)) {
    options.line.require();
    for (const BucketSpec& bucket : buckets) {
      if (options.line.compression == Compression::int8 && bucket.type != DataType::float32) {
        throw UsageError(text("compression int8 of ", name_of(bucket.type), ": expected float32"));
      }
    }
  }
  /// All lines over one engine.
  Impl(Engine& engine, const std::vector<BucketSpec>& buckets, const GridAllreduceOptions& options)
      : Impl(engine.clock(), false, buckets, options) {
    const GridLayout layout(engine.size(), options.grid);
    layout.require_elements(elements());
    const Engine::Pause pause(engine);
    for (int dimension = 0; dimension < layout.dimensions(); ++dimension) {
      seat(dimension).line = line_of(engine, dimension, layout.line_of(engine.rank(), dimension));
    }
  }

  std::shared_ptr<LineRounds> make_line(Engine& engine, int dimension) {
    std::vector<int> all(static_cast<std::size_t>(engine.size()));
    std::iota(all.begin(), all.end(), 0);
    const Engine::Pause pause(engine);
    return line_of(engine, dimension, std::move(all));
  }
  void enter(int dimension, std::shared_ptr<LineRounds> line) {
    const MutexLock lock(mutex_);
    seat(dimension).next = std::move(line);
  }
  bool is_broken(int dimension) const {
    const auto line = newest_line(dimension);
    return line != nullptr && line->failed();
  }

  bool may_take() const {
    return std::ranges::any_of(lines(), [](const auto& line) { return line->may_take(); });
  }
  int take(FunctionRef<void(const GridSlice&)> apply) {
    if (newest_ == nullptr) return 0;
    int rounds = 0;
    for (int dimension = 0; dimension < dimensions(); ++dimension) {
      const auto line = this->line(dimension);
      if (line == nullptr) continue;
      for (const LineResult* result : line->take()) {
        ++rounds;
        hand_over(dimension, *result, line->rank(), apply);
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
    for (const auto& line : lines()) line->applied(*newest_, steps);
    for (const auto& line : change_lines()) line->applied(*newest_, 0);
  }
  std::uint64_t version() const { return newest_ == nullptr ? 0 : newest_->version; }
  bool has_given(std::uint64_t version) const {
    return std::ranges::all_of(lines(), [version](const auto& line) { return line->has_given(version); });
  }
  bool stop(Driver& driver, TimePoint deadline) {
    for (const auto& line : lines()) line->stop();
    const auto is_over = [this] {
      return std::ranges::all_of(lines(), [](const auto& line) { return line->stopped() || line->failed(); });
    };
    return driver.wait(is_over, deadline);
  }
  std::optional<Error> failure() const {
    for (const auto& line : lines()) {
      auto why = line->failure();
      if (why && !(come_and_go_ && why->code == Errc::lost_peer)) return why;
    }
    return std::nullopt;
  }
  void abort(Driver& driver, const Error& why) {
    if (come_and_go_) return;  // the driver is of another engine, over which the job stops
    for (const auto& line : lines()) line->abort(driver, why);
  }
  std::uint64_t memory_bytes() const {
    int sets = models_.count();
    std::uint64_t slices = 0;
    for (const auto& line : lines()) {
      sets += line->num_results();
      slices += line->other_bytes();
    }
    return static_cast<std::uint64_t>(sets) * Contribution::bytes_needed(buckets_) + slices;
  }
  GridCounts counts(int dimension) const {
    const MutexLock lock(mutex_);
    const Seat& here = seats_.at(static_cast<std::size_t>(dimension));
    GridCounts counts = here.before;
    if (here.line != nullptr) counts.add(here.line->counts());
    return counts;
  }
  Traffic traffic() const {
    const MutexLock lock(mutex_);
    Traffic sent = sent_before_;
    for (const Seat& seat : seats_) {
      if (seat.line != nullptr) sent.add(seat.line->traffic());
    }
    return sent;
  }
  void count_on_from(const Impl& before) {
    const int both = std::min(dimensions(), before.dimensions());
    for (int dimension = 0; dimension < both; ++dimension) {
      const GridCounts counts = before.counts(dimension);
      const MutexLock lock(mutex_);
      seat(dimension).before = counts;
    }
  }
  std::vector<std::string> take_lines() {
    std::vector<std::string> out;
    for (const auto& line : lines()) {
      if (std::string said = line->take_line(); !said.empty()) out.push_back(std::move(said));
    }
    return out;
  }
  int num_models() const { return models_.count(); }
  int num_results() const {
    int most = 0;
    for (const auto& line : lines()) most = std::max(most, line->num_results());
    return most;
  }
  const GridOptions& grid() const { return grid_; }
  int dimensions() const { return dimensions_; }
  std::uint64_t elements() const {
    std::uint64_t count = 0;
    for (const BucketSpec& bucket : buckets_) count += bucket.count;
    return count;
  }

 private:
  using Lines = std::vector<std::shared_ptr<LineRounds>>;
  /// This node's in a dimension.
  struct Seat {
    std::shared_ptr<LineRounds> line;                 // null: it is in none
    std::optional<std::shared_ptr<LineRounds>> next;  // to be entered
    GridCounts before;                                // in the lines before
  };

  std::shared_ptr<LineRounds> line_of(Engine& engine, int dimension, std::vector<int> members) {
    return std::make_shared<LineRounds>(engine, text("grid line of dimension ", dimension), buckets_, options_,
                                        std::move(members), models_);
  }
  Seat& seat(int dimension) REQUIRES(mutex_) { return seats_.at(static_cast<std::size_t>(dimension)); }
  Lines lines() const {
    const MutexLock lock(mutex_);
    Lines out;
    for (const Seat& seat : seats_) {
      if (seat.line != nullptr) out.push_back(seat.line);
    }
    return out;
  }
  std::shared_ptr<LineRounds> line(int dimension) const {
    const MutexLock lock(mutex_);
    return seats_.at(static_cast<std::size_t>(dimension)).line;
  }
  std::shared_ptr<LineRounds> newest_line(int dimension) const {
    const MutexLock lock(mutex_);
    const Seat& seat = seats_.at(static_cast<std::size_t>(dimension));
    return seat.next.value_or(seat.line);
  }
  /// Enters the lines that are to be entered, and returns them. Those before end when nobody looks at them any more.
  Lines change_lines() {
    Lines entered, left;
    const MutexLock lock(mutex_);
    for (Seat& seat : seats_) {
      if (!seat.next) continue;
      if (seat.line != nullptr) {
        seat.before.add(seat.line->counts());
        sent_before_.add(seat.line->traffic());
        left.push_back(std::move(seat.line));
      }
      seat.line = *std::exchange(seat.next, std::nullopt);
      if (seat.line == nullptr) continue;
      ++seat.before.entered;
      entered.push_back(seat.line);
    }
    return entered;
  }

  void hand_over(int dimension, const LineResult& result, int me, FunctionRef<void(const GridSlice&)> apply) const {
    const int nodes = static_cast<int>(result.who.size());
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      const int bucket = static_cast<int>(i);
      for (int slice = 0; slice < nodes; ++slice) {
        const RankSet& who = result.who[static_cast<std::size_t>(slice)];
        const Part of = part(buckets_[i].count, slice, nodes);
        if (who.count() == 0 || of.count() == 0) continue;
        const std::uint64_t at = of.begin * size_of(buckets_[i].type);
        const bool is_in = result.brought != nullptr && who.contains(me);
        apply({.dimension = dimension,
               .round = result.round,
               .bucket = i,
               .offset = of.begin,
               .count = of.count(),
               .sum = result.sums.bucket(bucket).data() + at,
               .brought = is_in ? result.brought->contribution.bucket(bucket).data() + at : nullptr,
               .members = options_.compression == Compression::int8 ? 1 : who.count()});
      }
    }
  }

  const Clock& clock_;
  const bool come_and_go_;  // lines do, each with its engine
  const std::vector<BucketSpec> buckets_;
  const GridOptions grid_;
  const LineOptions options_;
  const int dimensions_;
  NodeModels models_;
  StandingModel* filling_ = nullptr;
  StandingModel* newest_ = nullptr;  // pinned
  mutable Mutex mutex_;
  std::vector<Seat> seats_ GUARDED_BY(mutex_);  // by dimension
  Traffic sent_before_ GUARDED_BY(mutex_);      // in the lines before
};

GridAllreduce::GridAllreduce(Engine& engine, const std::vector<BucketSpec>& buckets,
                             const GridAllreduceOptions& options)
    : impl_(std::make_unique<Impl>(engine, buckets, options)) {}
GridAllreduce::GridAllreduce(const Clock& clock, const std::vector<BucketSpec>& buckets,
                             const GridAllreduceOptions& options)
    : impl_(std::make_unique<Impl>(clock, true, buckets, options)) {}
GridAllreduce::~GridAllreduce() = default;

std::shared_ptr<LineRounds> GridAllreduce::make_line(Engine& engine, int dimension) {
  return impl_->make_line(engine, dimension);
}
void GridAllreduce::enter(int dimension, std::shared_ptr<LineRounds> line) {
  impl_->enter(dimension, std::move(line));
}
bool GridAllreduce::is_broken(int dimension) const {
  return impl_->is_broken(dimension);
}
bool GridAllreduce::may_take() const {
  return impl_->may_take();
}
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
Traffic GridAllreduce::traffic() const {
  return impl_->traffic();
}
void GridAllreduce::count_on_from(const GridAllreduce& before) {
  impl_->count_on_from(*before.impl_);
}
std::uint64_t GridAllreduce::version() const {
  return impl_->version();
}
bool GridAllreduce::has_given(std::uint64_t version) const {
  return impl_->has_given(version);
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
const GridOptions& GridAllreduce::grid() const {
  return impl_->grid();
}
int GridAllreduce::dimensions() const {
  return impl_->dimensions();
}
std::uint64_t GridAllreduce::elements() const {
  return impl_->elements();
}
int GridAllreduce::num_models() const {
  return impl_->num_models();
}
int GridAllreduce::num_results() const {
  return impl_->num_results();
}

}  // namespace stretto
