#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/check/grid/grid_draw.h"
#include "stretto/check/grid/grid_node.h"
#include "stretto/check/grid/grid_views.h"
#include "stretto/check/grid/line_meetings.h"
#include "stretto/check/grid/state_giving.h"
#include "stretto/check/harness/searches.h"
#include "stretto/check/harness/simulated_application.h"
#include "stretto/collective/groups/grid_layout.h"

namespace stretto {
namespace {

constexpr std::uint64_t kGridStream = 0x67726964;
constexpr std::uint64_t kSlowestLink = 100;
constexpr std::uint64_t kMostEvents = 20'000;               // until faults end
constexpr Round kMoreRounds = 3;                            // that each line must have when faults have ended
constexpr Duration kAWord = std::chrono::milliseconds(25);  // of AskedGivers::Asked, for as long as a word takes here

/// Indices into kGridReaches.
enum class GridReached : std::uint8_t {
  forced,
  late,
  late_means,
  nulls,
  reduced_without,
  completed_without,
  previous,
  paper,
  dimensions,
  stopped,
  suspected,
  lost,
  masters_lost,
  late_models,
  dropped,
  changed,
  entered_later,
  held_back,
  met,
  stayed,
  broken,
  given,
  asked_again,
};

/// Nodes whose applications make steps, and send words that come late, in the order of their link; with faults.
class GridJob {
 public:
  GridJob(std::uint64_t seed, const JobLimits& limits, JobFinding& finding)
      : random_(seed, kGridStream),
        finding_(finding),
        machines_(draw_grid_machines(Random(seed, kGridStream + 1))),
        drawn_(draw_grid(random_, limits.ranks, machines_.network.latency)),
        searched_(machines_, seed, finding),
        views_(drawn_.nodes, drawn_.grid),
        meetings_random_(seed, kGridStream + 2),
        meetings_({[this](int node, std::function<void()> run) { meet_later(node, std::move(run)); },
                   [this](std::string what) { finding_.violated(std::move(what)); }}),
        giving_({[this](int node, std::function<void()> run) { meet_later(node, std::move(run)); },
                 [this](int node, Duration within, std::function<void()> run) {
                   run_at(node, now() + longest_word() * (within / kAWord), std::move(run));
                 },
                 [this](int node, const FieldVector& state) { take_state(node, state); }}),
        oracle_(std::make_unique<GridOracle>(drawn_.lines)) {
    finding.job = drawn_.to_string();
    add_lines();
    for (int node = 0; node < num_nodes(); ++node) make_node(node);
    draw_slow_links();
    for (const int node : views_.nodes()) {
      site(node).node->enter(views_.places(node), true, now());
      if (drawn_.spares > 0) hear_of_lines(node, views_.places(node));
    }
    until_heard_ = random_.chance(0.5);
    next_fault_ = draw_time(20);
  }

  void run() {
    for (int node = 0; node < drawn_.nodes; ++node) {
      if (const auto at = static_cast<std::size_t>(node); sites_[at].idle == 0) be_at_boundary(node);
    }
    for (int node = 0; node < drawn_.nodes; ++node) {
      look(node);
      compute(node);
    }
    searched_.run({.transition = [this] { check(); }});
    if (!finding_.violation && !done_) finding_.violated("nothing happens any more");
    if (!finding_.violation) check_sum();
    end();
  }

 private:
  struct Site {
    std::unique_ptr<GridNode> node;
    std::uint64_t batches = 0;
    std::uint64_t idle = 0;  // boundaries before it has a model
    bool gone = false;
    bool comes = false;      // and has no model yet
    std::uint64_t view = 0;  // that it has entered
    TimePoint look_at = TimePoint::never();
  };
  struct Link {
    TimePoint last;
    double factor = 1;
    std::uint64_t sent = 0, come = 0;
    std::uint64_t lost_from = ~std::uint64_t{0};
  };

  static std::size_t index_of(int node) { return static_cast<std::size_t>(node); }
  TimePoint now() { return searched_.cluster.now(); }
  Site& site(int node) { return sites_[static_cast<std::size_t>(node)]; }
  int num_nodes() const { return drawn_.nodes + drawn_.spares; }
  Link& link(int from, int to) { return links_[index_of(from) * index_of(num_nodes()) + index_of(to)]; }
  int draw_node() { return static_cast<int>(random_.below(static_cast<std::uint64_t>(num_nodes()))); }
  /// From now, up to so many latencies.
  TimePoint draw_time(std::uint64_t latencies) {
    const auto most = static_cast<std::uint64_t>(longest_word().count()) * latencies;
    return now() + Duration(static_cast<std::int64_t>(random_.log_uniform(1, most)));
  }
  Duration longest_word() const { return machines_.network.latency + machines_.network.jitter; }
  void reach(GridReached what, std::uint64_t times = 1) { finding_.reached[static_cast<std::size_t>(what)] += times; }
  void note(const std::string& fault) { finding_.job += text("; ", to_text(now().since_start), ": ", fault); }

  void make_node(int node) {
    Site& made = sites_.emplace_back();
    made.comes = node >= drawn_.nodes;
    made.node = std::make_unique<GridNode>(
        drawn_.lines, drawn_.alpha,
        GridNode::Surroundings{*oracle_, counts_, [this, node](int to, const LineWord& word) { send(node, to, word); },
                               drawn_.narrow});
    made.batches = random_.chance(0.2) ? 0 : random_.below(4 * drawn_.rounds);
    if (drawn_.lines.update == ElasticUpdate::carry && random_.chance(0.1)) {
      made.idle = random_.below(6) + 1;
      reach(GridReached::late_models);
    }
  }
  void draw_slow_links() {
    links_.resize(index_of(num_nodes()) * index_of(num_nodes()));
    for (int slow = random_.chance(0.7) ? 1 + drawn_.nodes / 3 : 0; slow > 0; --slow) {
      const double factor = static_cast<double>(random_.log_uniform(2, kSlowestLink));
      link(draw_node(), draw_node()).factor = factor;
      slowest_link_ = std::max(slowest_link_, factor);
    }
  }

  void send(int from, int to, const LineWord& word) {
    Link& over = link(from, to);
    const auto jitter = static_cast<std::uint64_t>(machines_.network.jitter.count());
    const auto delay =
        static_cast<double>(machines_.network.latency.count()) + static_cast<double>(random_.below(jitter + 1));
    over.last = std::max(over.last, now() + Duration(static_cast<std::int64_t>(over.factor * delay)));
    ++messages_;
    searched_.cluster.at(over.last, to, [this, from, to, word, number = over.sent++] { hear(from, to, word, number); });
  }
  void hear(int from, int to, const LineWord& word, std::uint64_t number) {
    link(from, to).come = number + 1;
    if (!done_ && !site(from).gone) site(from).node->left(to, word, now());
    if (done_ || site(to).gone || number >= link(from, to).lost_from) return;
    if (site(from).gone && site(to).node->suspects(from)) return;  // the connection has ended
    if (until_heard_ && site(to).node->suspects(from)) site(to).node->suspect(from, false, now());
    site(to).node->receive(word, now());
    look(to);
  }
  void look(int node) {
    Site& here = site(node);
    const TimePoint next = here.node->look(now());
    if (next >= here.look_at || next == TimePoint::never()) return;
    here.look_at = next;
    searched_.cluster.at(next, node, [this, node] {
      site(node).look_at = TimePoint::never();
      if (!done_ && !site(node).gone) look(node);
    });
  }

  void compute(int node) {
    double factor = machines_.slowness[static_cast<std::size_t>(node)];
    factor *= 1 + machines_.spread * (2 * random_.uniform() - 1);
    if (random_.chance(machines_.stall)) factor *= static_cast<double>(random_.between(10, 50));
    searched_.cluster.after(from_seconds(seconds(machines_.compute) * factor), node, [this, node] {
      if (done_ || site(node).gone) return;
      be_at_boundary(node);
      look(node);
      compute(node);
    });
  }
  void be_at_boundary(int node) {
    Site& here = site(node);
    if (here.idle > 1) return void(--here.idle);
    here.idle = 0;
    FieldVector step;
    if (here.node->model().empty() || here.batches > 0) {
      step = draw_vector(random_, drawn_.elements);
      for (const Field value : step) sum_ = sum_ + value;
      if (!here.node->model().empty()) --here.batches;
    }
    const bool may_apply = !step.empty() || !defect(Defect::grid_stops_applying);
    here.node->at_boundary(step.empty() ? nullptr : &step, may_apply, now());
    giving_.at_boundary(node, here.node->model());
  }

  // Members that change.

  void add_lines() {
    while (num_lines_ < views_.lines().size()) oracle_->add_line(views_.lines()[num_lines_++]);
  }
  /// Another view, which each node enters at a time of its own. Who leaves it does nothing more.
  void change() {
    const std::vector<int>& nodes = views_.nodes();
    if (const int next = drawn_.nodes + come_; next < num_nodes() && random_.chance(0.5)) {
      if (!views_.with(next)) return;
      ++come_;
      note(text("node ", next, " comes"));
    } else {
      const int leaves = nodes[random_.below(nodes.size())];
      if (!views_.without(leaves)) return;
      note(text("node ", leaves, " leaves"));
      site(leaves).gone = true;
      meetings_.gone(leaves);
      giving_.gone(leaves);
    }
    reach(GridReached::changed);
    add_lines();
    ++view_;
    std::vector<int> gives = views_.nodes();
    std::erase_if(gives, [this](int node) { return site(node).gone || site(node).node->model().empty(); });
    for (const int node : views_.nodes()) {
      const TimePoint when = draw_time(random_.chance(0.5) ? 5 : 100);
      last_stop_ = std::max(last_stop_, when);
      searched_.cluster.at(when, node, [this, node, gives, view = view_, places = views_.places(node)] {
        if (done_ || site(node).gone || site(node).view >= view) return;
        site(node).view = view;
        if (view < view_) reach(GridReached::entered_later);
        site(node).node->enter(places, false, now());
        hear_of_lines(node, places);
        if (site(node).comes) hear_of_givers(node, gives);
        look(node);
      });
    }
  }
  /// A node that comes has no model. Where nobody gives one it begins with its own.
  void hear_of_givers(int node, const std::vector<int>& gives) {
    if (defect(Defect::grid_comes_untaught) && site(node).node->model().empty()) {
      be_at_boundary(node);
      compute(node);
    }
    if (!gives.empty()) return giving_.hear(node, gives);
    giving_.gone(node);
    take_state(node, draw_vector(meetings_random_, drawn_.elements));
  }
  void take_state(int node, const FieldVector& state) {
    Site& here = site(node);
    here.comes = false;
    for (const Field value : state) sum_ = sum_ + value;
    FieldVector step = state;
    if (!here.node->model().empty()) add(step, here.node->model(), Field(Field::kPrime - 1));
    here.node->at_boundary(&step, true, now());
    look(node);
    if (!defect(Defect::grid_comes_untaught)) compute(node);
  }
  /// Where lines are worlds of their own a node goes there beside training.
  void hear_of_lines(int node, const std::vector<GridNode::Place>& places) {
    for (int dimension = 0; dimension < drawn_.layout.dimensions(); ++dimension) {
      const auto place = std::ranges::find(places, dimension, &GridNode::Place::dimension);
      LineMeetings::Nodes line;
      if (place != places.end()) line.assign(place->members.begin(), place->members.end());
      meetings_.hear(node, dimension, std::move(line));
    }
  }
  void meet_later(int node, std::function<void()> run) {
    const auto most = static_cast<std::uint64_t>(longest_word().count()) * 20;
    run_at(node, now() + Duration(static_cast<std::int64_t>(meetings_random_.log_uniform(1, most))), std::move(run));
  }
  void run_at(int node, TimePoint when, std::function<void()> run) {
    searched_.cluster.at(when, node, [this, node, run = std::move(run)] {
      if (!done_ && !site(node).gone) run();
    });
  }

  // Faults.

  /// How many nodes of a line it does without.
  int spare(const std::vector<int>& line) const {
    const auto members = static_cast<int>(line.size());
    const LineOptions& o = drawn_.lines;
    return members - std::max({needed(o.reduce, members), needed(o.complete, members), needed(o.advance, members)});
  }
  bool may_lose(int node) {
    return !site(node).gone && std::ranges::all_of(views_.lines(), [&](const std::vector<int>& line) {
      if (std::ranges::count(line, node) == 0) return true;
      const auto gone = std::ranges::count_if(line, [&](int other) { return site(other).gone; });
      return static_cast<int>(gone) < spare(line);
    });
  }
  void lose(int node) {
    note(text("node ", node, " is lost"));
    reach(GridReached::lost);
    for (std::size_t line = 0; line < num_lines_; ++line) {
      if (site(node).node->is_line_master(static_cast<int>(line))) reach(GridReached::masters_lost);
    }
    site(node).gone = true;
    for (int other = 0; other < num_nodes(); ++other) {
      Link& over = link(node, other);
      over.lost_from = over.come + random_.below(over.sent - over.come + 1);
      if (other != node) believe(other, node, true, draw_time(100));
    }
  }
  void believe(int node, int of, bool gone, TimePoint when) {
    searched_.cluster.at(when, node, [this, node, of, gone] {
      if (done_ || site(node).gone || (!gone && site(of).gone)) return;
      site(node).node->suspect(of, gone, now());
      look(node);
    });
  }
  void suspect_for_a_while(int node, int of, TimePoint from) {
    believe(node, of, true, from);
    if (!until_heard_) believe(node, of, false, from + (draw_time(200) - now()));
  }
  void begin_fault() {
    const int node = draw_node();
    if (site(node).gone) return;
    switch (random_.below(3)) {
      case 0:
        if (drawn_.spares > 0) return change();
        for (int from = random_.chance(0.5) ? 0 : node; from < drawn_.nodes; ++from) {
          if (may_lose(from)) return lose(from);
        }
        return;
      case 1: {
        const TimePoint until = draw_time(200);
        note(text("node ", node, " stands still until ", to_text(until.since_start)));
        reach(GridReached::stopped);
        searched_.cluster.stop(node, until);
        last_stop_ = std::max(last_stop_, until);
        longest_stop_ = std::max(longest_stop_, until - now());
        if (random_.chance(0.5)) return;
        for (int other = 0; other < num_nodes(); ++other) {
          if (other != node && random_.chance(0.7)) suspect_for_a_while(other, node, draw_time(100));
        }
        return;
      }
      default: {  // a line master, or any
        const auto& line = views_.lines()[random_.below(num_lines_)];
        const int other = random_.chance(0.6) ? line.front() : draw_node();
        if (other == node) return;
        note(text("node ", node, " suspects node ", other));
        reach(GridReached::suspected);
        suspect_for_a_while(node, other, now());
      }
    }
  }

  // What must be.

  void check() {
    if (!oracle_->wrong().empty()) return finding_.violated(oracle_->wrong());
    if (done_) return;
    if (!calm_ && now() >= next_fault_) {
      begin_fault();
      next_fault_ = draw_time(300);
    }
    if (++looks_ % 32 != 0) return;
    if (!calm_ && (std::ranges::max(furthest()) >= drawn_.rounds || searched_.cluster.events() > kMostEvents))
      end_faults();
    if (!calm_) return;
    done_ = all_are_there() && meetings_.who_lacks().empty();
    if (!done_ && now() > deadline_) {
      finding_.violated(text("a line stands still (L8): ", who_lacks(), "; ", meetings_.who_lacks()));
    }
  }
  /// L8: from here on each line that has the nodes it needs must go on.
  void end_faults() {
    calm_ = true;
    const TimePoint from = std::max(now(), last_stop_);
    for (int node = 0; node < num_nodes(); ++node) {
      for (int other = 0; other < num_nodes(); ++other) {
        if (site(other).gone || until_heard_) continue;
        believe(node, other, false, from + longest_word() * 100);
      }
    }
    goals_ = furthest();
    for (Round& goal : goals_) goal += kMoreRounds;
    const Round more = giving_.any_awaits() ? 2 * kMoreRounds : kMoreRounds;
    deadline_ = from + longest_round() * static_cast<std::int64_t>(2 * more);
  }
  /// No round takes as long: words, the slowest application, patience, also one that has learned from a stop.
  Duration longest_round() const {
    const double slowest = *std::ranges::max_element(machines_.slowness) * (machines_.stall > 0 ? 100 : 2);
    const Duration word = from_seconds(seconds(longest_word()) * slowest_link_);
    return 5 * (2 * word + from_seconds(seconds(machines_.compute) * slowest) + drawn_.lines.patience + longest_stop_);
  }
  /// By line, the rounds that some member has applied.
  std::vector<Round> furthest() {
    std::vector<Round> out(num_lines_);
    for (const Site& here : sites_) {
      if (here.gone) continue;
      for (const auto& [line, next, applied] : here.node->progress()) {
        Round& most = out[static_cast<std::size_t>(line)];
        most = std::max(most, applied);
      }
    }
    return out;
  }
  bool lacks(const GridNode::Progress& side) const {
    return side.applied_before < goals_[static_cast<std::size_t>(side.line)];
  }
  bool all_are_there() {
    return std::ranges::all_of(views_.nodes(), [this](int node) {
      const Site& here = site(node);
      if (here.gone) return true;
      return here.view == view_ &&
             std::ranges::none_of(here.node->progress(), [this](auto& its) { return lacks(its); });
    });
  }
  std::string who_lacks() {
    std::string out;
    for (int node = 0; node < num_nodes(); ++node) {
      if (site(node).gone) continue;
      for (const auto& side : site(node).node->progress()) {
        if (!lacks(side)) continue;
        const auto& [line, next, applied] = side;
        out += text(out.empty() ? "" : ", ", "node ", node, " in line ", line, " at round ", applied, " of ", next);
      }
    }
    return out;
  }

  /// L6: the sum of all models is that of their steps, but for rounds that some have not applied.
  void check_sum() {
    if (drawn_.lines.update == ElasticUpdate::paper) return;
    Field models;
    for (const Site& here : sites_) {
      for (const Field value : here.node->model()) models = models + value;
    }
    if (models != sum_ + oracle_->unsettled())
      finding_.violated("the models have moved by more or less than steps (L6)");
  }
  void end() {
    finding_.rounds = oracle_->rounds();
    finding_.messages = messages_;
    const bool paper = drawn_.lines.update == ElasticUpdate::paper;
    reach(GridReached::forced, counts_.forced);
    reach(GridReached::late, counts_.late);
    reach(GridReached::late_means, counts_.late_means);
    reach(GridReached::nulls, counts_.nulls);
    reach(GridReached::reduced_without, counts_.reduced_without);
    reach(GridReached::completed_without, counts_.completed_without);
    reach(GridReached::previous, counts_.previous);
    reach(GridReached::paper, paper ? finding_.rounds : 0);
    reach(GridReached::dropped, counts_.dropped);
    reach(GridReached::held_back, counts_.held_back);
    reach(GridReached::met, meetings_.counts().met);
    reach(GridReached::stayed, meetings_.counts().stayed);
    reach(GridReached::broken, meetings_.counts().broken);
    reach(GridReached::given, giving_.counts().given);
    reach(GridReached::asked_again, giving_.counts().asked_again);
    reach(GridReached::dimensions, drawn_.layout.dimensions() > 2 ? finding_.rounds : 0);
  }

  Random random_;
  JobFinding& finding_;
  const Machines machines_;
  DrawnGrid drawn_;
  SearchedJob searched_;
  GridViews views_;
  Random meetings_random_;
  LineMeetings meetings_;
  StateGiving giving_;
  std::size_t num_lines_ = 0;
  std::uint64_t view_ = 0;
  int come_ = 0;  // of the spares
  GridEvents counts_;
  std::unique_ptr<GridOracle> oracle_;
  std::vector<Site> sites_;
  std::vector<Link> links_;
  Field sum_;  // of all steps
  double slowest_link_ = 1;
  TimePoint next_fault_, last_stop_;
  Duration longest_stop_{0};
  TimePoint deadline_ = TimePoint::never();
  std::vector<Round> goals_;  // by line
  std::uint64_t looks_ = 0, messages_ = 0;
  bool until_heard_ = false;  // nodes suspect others until they hear of them
  bool calm_ = false, done_ = false;
};

}  // namespace

void run_grid_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  GridJob(seed, limits, finding).run();
}

}  // namespace stretto
