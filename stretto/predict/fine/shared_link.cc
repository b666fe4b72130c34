#include "stretto/predict/fine/shared_link.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stretto {

namespace {

/// All flows advance at the same rate, capped or not. So the link has one clock that runs at this rate, a flow is over
/// when that clock shows its tag, and an event costs the logarithm of the number of flows.
class EqualLink final : public SharedLink {
 public:
  explicit EqualLink(double cap) : cap_(cap) {}

  void begin(double now, int worker, double work) override {
    advance(now);
    push({clock_ + work, worker});
  }

  double earliest() const override { return now_ + (flows_.front().tag - clock_) / rate(); }
  int first() const override { return flows_.front().worker; }
  bool empty() const override { return flows_.empty(); }

  void finish(double now, std::optional<double> work) override {
    clock_ = flows_.front().tag;  // what advance() would give but for rounding
    now_ = now;
    if (work) {
      sink({clock_ + *work, flows_.front().worker});
      return;
    }
    std::ranges::pop_heap(flows_, later);
    flows_.pop_back();
    if (flows_.empty()) clock_ = 0;  // or small tags would lose digits beside a large clock
  }

 private:
  struct Flow {
    double tag;
    int worker;
  };
  static bool later(const Flow& a, const Flow& b) { return std::pair(a.tag, a.worker) > std::pair(b.tag, b.worker); }

  double rate() const { return std::min(cap_, 1 / static_cast<double>(flows_.size())); }

  void advance(double now) {
    if (!flows_.empty()) clock_ += (now - now_) * rate();
    now_ = now;
  }

  void push(const Flow& flow) {
    flows_.push_back(flow);
    std::ranges::push_heap(flows_, later);
  }

  /// Puts `flow` in the place of the first.
  void sink(const Flow& flow) {
    std::size_t place = 0;
    for (std::size_t child = 1; child < flows_.size(); child = 2 * place + 1) {
      if (child + 1 < flows_.size() && later(flows_[child], flows_[child + 1])) ++child;
      if (!later(flow, flows_[child])) break;
      flows_[place] = flows_[child];
      place = child;
    }
    flows_[place] = flow;
  }

  const double cap_;
  std::vector<Flow> flows_;  // a heap, the lowest tag first
  double clock_ = 0;
  double now_ = 0;
};

/// The flows that came first are served, each at the cap, the last of them at what is left of the rate.
class InOrderLink final : public SharedLink {
 public:
  // A remainder below rounding is none: ten flows of a tenth use up the rate.
  explicit InOrderLink(double cap) : cap_(cap), most_(std::ceil((1 - 1e-12) / cap)) {}

  void begin(double now, int worker, double work) override {
    advance(now);
    flows_.push_back({worker, work});
  }

  double earliest() const override {
    const std::size_t flow = first_over();
    return now_ + flows_[flow].left / rate(flow);
  }
  int first() const override { return flows_[first_over()].worker; }
  bool empty() const override { return flows_.empty(); }

  void finish(double now, std::optional<double> work) override {
    const std::size_t flow = first_over();
    advance(now);
    if (work)
      flows_[flow].left = *work;
    else
      flows_.erase(flows_.begin() + static_cast<std::ptrdiff_t>(flow));
  }

 private:
  struct Flow {
    int worker;
    double left;
  };

  std::size_t served() const {
    const auto flows = static_cast<double>(flows_.size());
    return flows <= most_ ? flows_.size() : static_cast<std::size_t>(most_);
  }

  /// Of a flow that is served, by its place.
  double rate(std::size_t flow) const { return std::min(cap_, 1 - static_cast<double>(flow) * cap_); }

  std::size_t first_over() const {
    std::size_t first = 0;
    for (std::size_t flow = 1; flow < served(); ++flow)
      if (flows_[flow].left / rate(flow) < flows_[first].left / rate(first)) first = flow;
    return first;
  }

  void advance(double now) {
    for (std::size_t flow = 0; flow < served(); ++flow)
      flows_[flow].left = std::max(0.0, flows_[flow].left - (now - now_) * rate(flow));
    now_ = now;
  }

  const double cap_;
  const double most_;       // so many flows are served at once
  std::deque<Flow> flows_;  // in order of arrival
  double now_ = 0;
};

}  // namespace

std::unique_ptr<SharedLink> make_link(LinkSharing sharing, double cap) {
  if (sharing == LinkSharing::equal_shares) return std::make_unique<EqualLink>(cap);
  return std::make_unique<InOrderLink>(cap);
}

}  // namespace stretto
