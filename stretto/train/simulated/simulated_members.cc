#include "stretto/train/simulated/simulated_members.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "stretto/membership/changes.h"
#include "stretto/membership/rank_end.h"
#include "stretto/membership/views/companions.h"
#include "stretto/membership/views/member.h"
#include "stretto/membership/views/members_in_words.h"

namespace stretto {
namespace {

constexpr Duration kTickEvery = std::chrono::milliseconds(100);  // of the master's clock
constexpr Duration kForOthers = std::chrono::hours(24 * 365);    // where others come in the place of lost ones
constexpr std::uint64_t kGatheringsKept = 2;                     // of the newest epochs

}  // namespace

/// A process at a node, as the rank that it is in one world after the other.
class SimulatedMembers::Process final : public RankContext, public Changes {
 public:
  Process(SimulatedMembers& job, VirtualRank& place, MemberNumber number)
      : job_(job), place_(place), member_(number, text("node ", place.rank()), {}) {
    job_.processes_[number] = this;
  }
  ~Process() override {
    job_.processes_.erase(number());
    place_.drive_engine(nullptr);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  World& world() override {
    if (part_ == nullptr) {
      job_.hear(*this, {.hello = member_.hello()});
      enter();
    }
    return part_->world;
  }
  SharedCounter& counter(int index) override {
    throw UsageError(text("counter ", index, " of a job whose members change: batches come from the job's pool"));
  }
  std::span<std::byte> extra() override { return {}; }
  bool interrupted() override { return false; }
  void report(std::string report) override {
    if (!report_.empty()) throw UsageError(second_report(place()));
    report_ = std::move(report);
  }
  void complain(const Error& error) override {
    if (job_.options_.tell) job_.options_.tell(text("member ", number(), " is lost: ", error.message));
  }
  int local_rank() override { return place(); }
  Changes* changes() override { return this; }

  const Clock& clock() const override { return place_.clock(); }
  const View& view() const override { return member_.view(); }
  MemberNumber number() const override { return member_.number(); }
  int place() const override { return place_.rank(); }
  int most() const override { return job_.cluster_.size(); }
  void holds(std::function<Holding()> holding) override { holding_ = std::move(holding); }
  bool changing() const override { return changing_; }
  void enter() override;
  [[nodiscard]] bool begin() override;
  [[nodiscard]] bool finish() override;
  bool told_to_leave() const override { return told_to_leave_; }
  void leave() override;
  void require_master() const override {}
  void waits(bool) override {}  // nobody is excluded
  void handed_over(std::uint64_t batches) override { handed_over_ = batches; }
  std::optional<std::uint64_t> take(std::uint64_t batches, std::uint64_t plan) override;
  void enters_late() override { enters_late_ = true; }
  bool some_may_meet() const override { return true; }
  std::shared_ptr<const View> newest_view(std::uint64_t, Duration) override { return member_.newest(); }
  std::unique_ptr<Following> follow(WorldBeside beside) override;

  void hear(const MasterWords& words);
  void send_away() {
    told_to_leave_ = true;
    place_.notify();
  }
  void interrupt() { place_.interrupt(std::make_exception_ptr(SimulatedLoss())); }
  std::string reported() && { return std::move(report_); }

 private:
  friend class Follower;
  /// What the process has of one world.
  struct Part {
    std::unique_ptr<Transport> transport;
    World world;
    Part(std::unique_ptr<Transport> end, VirtualRank& place)
        : transport(std::move(end)), world(*transport, place.clock(), &place) {}
  };
  struct PartBeside : Part {
    VirtualRank& place;
    PartBeside(std::unique_ptr<Transport> end, VirtualRank& at) : Part(std::move(end), at), place(at) {
      place.drive_beside(world.engine());
    }
    ~PartBeside() { place.stop_driving(world.engine()); }
    PartBeside(const PartBeside&) = delete;
    PartBeside& operator=(const PartBeside&) = delete;
  };

  void freeze(std::uint64_t epoch);
  Holding holding() const;
  /// Throws what keeps this process from going on.
  void require_present() const;
  bool has_finished() const { return member_.standing() == Standing::finished; }

  SimulatedMembers& job_;
  VirtualRank& place_;
  Member member_;
  std::function<Holding()> holding_;
  std::deque<std::optional<std::uint64_t>> batches_;  // answers that nobody has taken
  std::string refused_;
  bool changing_ = false, told_to_leave_ = false, enters_late_ = false;
  std::uint64_t taken_ = 0, handed_over_ = 0;  // batches of the pool
  std::string report_;
  std::vector<std::unique_ptr<Part>> old_;  // of the worlds before, since this one has not begun
  std::unique_ptr<Part> part_;
  std::vector<Follower*> followers_;
};

/// Has a process be in a world beside that of all. By events alone.
class SimulatedMembers::Follower final : public Following {
 public:
  Follower(Process& process, WorldBeside beside) : process_(process), beside_(std::move(beside)) {
    process_.followers_.push_back(this);
    look();
  }
  ~Follower() override {
    await_no_more(companions_.awaited());
    if (company_ != nullptr) company_->erase(number());
    std::erase(process_.followers_, this);
  }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  MemberNumber number() const { return process_.number(); }
  const std::vector<MemberNumber>& awaited() const { return companions_.awaited(); }

  void look() override {
    const std::vector<MemberNumber> before = companions_.awaited();
    if (companions_.want(beside_.members(*process_.member_.newest()), broken_ || beside_.is_broken())) leave();
    if (companions_.awaited() == before) return;
    await_no_more(before);
    if (!companions_.awaited().empty()) process_.job_.await(name_of(companions_.awaited()), *this);
  }
  void enter(std::unique_ptr<Transport> end, std::shared_ptr<Company> company) {
    View some;
    for (const MemberNumber member : companions_.awaited()) some.members.push_back({.number = member});
    const auto part = std::make_shared<Process::PartBeside>(std::move(end), process_.place_);
    part->world.engine().name_ranks(some.names());
    beside_.enter({part, &part->world});
    companions_.met();
    if (company_ != nullptr) company_->erase(number());
    company_ = std::move(company);
    broken_ = false;
  }

 private:
  std::string name_of(const std::vector<MemberNumber>& members) const {
    return text(beside_.name, " of ", members_in_words(members));
  }
  void await_no_more(const std::vector<MemberNumber>& members) {
    if (!members.empty()) process_.job_.await_no_more(name_of(members), *this);
  }
  /// The others hear of it, and may have to meet this member anew.
  void leave() {
    const auto company = std::exchange(company_, nullptr);
    company->erase(number());
    beside_.enter(nullptr);
    process_.job_.cluster_.after(process_.job_.word_takes(), process_.place(), [company] {
      const Company others = *company;
      for (const auto& [number, other] : others) {
        other->broken_ = true;
        other->look();
      }
    });
  }

  Process& process_;
  const WorldBeside beside_;
  Companions companions_;
  std::shared_ptr<Company> company_;  // of the world where it is
  bool broken_ = false;               // that
};

std::unique_ptr<Following> SimulatedMembers::Process::follow(WorldBeside beside) {
  return std::make_unique<Follower>(*this, std::move(beside));
}

void SimulatedMembers::Process::hear(const MasterWords& words) {
  switch (words.kind) {
    case MasterWords::Kind::freeze: freeze(words.epoch); break;
    case MasterWords::Kind::tell:
      member_.tell(words.content);
      if (const auto next = member_.next(); enters_late_ && next && !next->is_awaited()) {
        job_.hear(*this, {.kind = ProcessWords::Kind::begun, .epoch = next->epoch});
      }
      for (Follower* follower : followers_) follower->look();
      break;
    case MasterWords::Kind::batch:
      batches_.push_back(words.batch);
      if (words.batch) ++taken_;
      break;
    case MasterWords::Kind::refuse: refused_ = words.why; break;
    default: break;
  }
  place_.notify();
}

/// The engine stops before what the process holds is counted, and nothing of its world is counted afterwards.
void SimulatedMembers::Process::freeze(std::uint64_t epoch) {
  if (!member_.freeze(epoch)) return job_.hear(*this, {.hello = member_.hello()});
  if (part_ != nullptr && epoch >= member_.view().epoch) {
    part_->world.engine().freeze();
    changing_ = true;
  }
  job_.hear(*this, {.kind = ProcessWords::Kind::report, .report = member_.report(epoch, holding())});
}

Holding SimulatedMembers::Process::holding() const {
  if (holding_) return holding_();
  const View& view = member_.view();
  const auto place = view.place_of(member_.number());
  if (!place) return {};
  return {.held = member_.has_begun() ? static_cast<RoundsHeld>(view.complete) : view.members[*place].held};
}

void SimulatedMembers::Process::require_present() const {
  if (!refused_.empty()) throw Failure({Errc::bad_input, text("this process is not let in: ", refused_)});
  switch (member_.standing()) {
    case Standing::present:
    case Standing::finished: break;
    case Standing::given_up:
      if (member_.is_leaving() || told_to_leave_) throw Left();
      throw Failure({Errc::aborted, "the job has ended: too few of its members were left"});
    case Standing::departed: throw Left();
    case Standing::excluded:
      throw Failure({Errc::excluded, text("the others have gone on without member ", member_.number())});
  }
}

void SimulatedMembers::Process::enter() {
  for (;;) {
    place_.wait_until([this] {
      require_present();
      const bool is_spare = member_.view().epoch == 0 && job_.master_.known()->view.epoch > 0 && !member_.next();
      if (is_spare && told_to_leave_) throw Left();
      return has_finished() || member_.next() != nullptr;
    });
    if (has_finished()) throw Left("the job has ended before this process came in");
    const std::shared_ptr<const View> entered = member_.next();
    const View& view = *entered;
    Gathering& gathering = job_.gathering(view);
    auto part = std::make_unique<Part>(
        job_.cluster_.enter(gathering.world, static_cast<int>(*view.place_of(member_.number()))), place_);
    job_.come(gathering, view, member_.number());
    const auto is_over = [&] {
      const auto next = member_.next();
      return !next || next->epoch != view.epoch;
    };
    place_.wait_until([&] {
      require_present();
      return is_over() || (gathering.complete && place_.clock().now() >= *gathering.complete);
    });
    if (is_over()) continue;
    if (part_ != nullptr) old_.push_back(std::move(part_));
    part_ = std::move(part);
    part_->world.engine().name_ranks(view.names());
    place_.drive_engine(&part_->world.engine(), job_.options_.progress_by);
    member_.enter();
    changing_ = false;
    return;
  }
}

bool SimulatedMembers::Process::begin() {
  if (!member_.begin()) return false;
  job_.hear(*this, {.kind = ProcessWords::Kind::begun, .epoch = view().epoch});
  old_.clear();
  return true;
}

bool SimulatedMembers::Process::finish() {
  if (!member_.finish()) return false;
  job_.hear(*this, {.kind = ProcessWords::Kind::done, .epoch = view().epoch});
  place_.wait_until([this] {
    require_present();
    return has_finished() || changing_;
  });
  return has_finished();
}

void SimulatedMembers::Process::leave() {
  if (member_.is_leaving()) return;
  member_.leave();
  job_.hear(*this, {.kind = ProcessWords::Kind::leaving});
}

std::optional<std::uint64_t> SimulatedMembers::Process::take(std::uint64_t batches, std::uint64_t plan) {
  job_.hear(
      *this,
      {.kind = ProcessWords::Kind::take, .batches = batches, .plan = plan, .taken = taken_, .computed = handed_over_});
  place_.wait_until([this] {
    require_present();
    return !batches_.empty();
  });
  const auto batch = batches_.front();
  batches_.pop_front();
  return batch;
}

SimulatedMembers::SimulatedMembers(SimulatedCluster& cluster, SimulatedMembersOptions options)
    : cluster_(cluster),
      options_(std::move(options)),
      register_(options_.position),
      master_(register_,
              {.least = static_cast<std::size_t>(options_.least),
               .most = static_cast<std::size_t>(cluster.size()),
               .wait = options_.churn.back ? kForOthers : Duration(0),
               .wait_to_leave = options_.churn.back ? kForOthers : Duration(0),
               .gather = kForOthers,
               .first = static_cast<std::size_t>(cluster.size())},
              cluster.now(),
              {.say = [this](MemberNumber to, const MasterWords& words) { say(to, words); },
               .tell =
                   [this](const std::string& line) {
                     if (options_.tell) options_.tell(line);
                   },
               .kill = [](MemberNumber) {}}) {
  master_.begin();
  keep_time();
  for (const Churn::Planned& one : options_.churn.planned) {
    cluster_.at(TimePoint{one.at}, one.place, [this, one] {
      const auto is_there = [&](const auto& process) { return process.second->place() == one.place; };
      const auto process = std::ranges::find_if(processes_, is_there);
      if (process == processes_.end()) return;
      if (one.leaves) return process->second->send_away();
      lose(process->first);
    });
  }
}

SimulatedMembers::~SimulatedMembers() = default;

Duration SimulatedMembers::word_takes() const {
  return cluster_.network().latency + cluster_.network().overhead;
}

void SimulatedMembers::keep_time() {
  master_.tick(cluster_.now());
  if (!is_over()) cluster_.after(kTickEvery, 0, [this] { keep_time(); });
}

void SimulatedMembers::say(MemberNumber to, const MasterWords& words) {
  const auto process = processes_.find(to);
  if (process == processes_.end()) return;
  cluster_.after(word_takes(), process->second->place(), [this, to, words] {
    if (const auto found = processes_.find(to); found != processes_.end()) found->second->hear(words);
  });
}

void SimulatedMembers::hear(const Process& process, ProcessWords words) {
  cluster_.after(word_takes(), process.place(),
                 [this, number = process.number(), words = std::move(words)] { master_.hear(number, words); });
}

SimulatedMembers::Gathering& SimulatedMembers::gathering(const View& view) {
  const auto [found, is_new] = gatherings_.try_emplace(view.epoch);
  if (is_new) {
    std::vector<int> nodes;
    for (const PlacedMember& member : view.members) nodes.push_back(place_of(member.number));
    found->second.world = cluster_.make_world(std::move(nodes));
  }
  return found->second;
}

void SimulatedMembers::come(Gathering& gathering, const View& view, MemberNumber number) {
  gathering.come.insert(number);
  if (gathering.come.size() < view.members.size()) return;
  // The last one has come: it says so to the first, which says so to all.
  gathering.complete = cluster_.now() + 2 * word_takes();
  for (const PlacedMember& member : view.members) {
    const int place = place_of(member.number);
    cluster_.at(*gathering.complete, place, [this, place] { cluster_.wake_by(place, cluster_.now()); });
  }
  while (gatherings_.size() > kGatheringsKept) gatherings_.erase(gatherings_.begin());
}

void SimulatedMembers::await(const std::string& name, Follower& follower) {
  Company& company = awaiting_[name];
  company.emplace(follower.number(), &follower);
  if (company.size() < follower.awaited().size()) return;
  // The last one has come: it says so to the first, which says so to all.
  cluster_.after(2 * word_takes(), place_of(follower.number()), [this, name] { meet(name); });
}

void SimulatedMembers::await_no_more(const std::string& name, const Follower& follower) {
  const auto found = awaiting_.find(name);
  if (found == awaiting_.end()) return;
  found->second.erase(follower.number());
  if (found->second.empty()) awaiting_.erase(found);
}

void SimulatedMembers::meet(const std::string& name) {
  const auto found = awaiting_.find(name);
  if (found == awaiting_.end()) return;
  const std::vector<MemberNumber> members = found->second.begin()->second->awaited();
  if (found->second.size() < members.size()) return;
  const auto company = std::make_shared<Company>(std::move(found->second));
  awaiting_.erase(found);
  std::vector<int> nodes;
  for (const MemberNumber member : members) nodes.push_back(place_of(member));
  const auto world = cluster_.make_world(std::move(nodes));
  std::vector<std::unique_ptr<Transport>> ends;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    ends.push_back(cluster_.enter(world, static_cast<int>(rank)));
  }
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    company->at(members[rank])->enter(std::move(ends[rank]), company);
  }
}

void SimulatedMembers::draw_end(MemberNumber number) {
  const Churn::End end = options_.churn.end_of(options_.seed, number);
  if (!end.after) return;
  cluster_.after(*end.after, processes_.at(number)->place(), [this, number, leaves = end.leaves] {
    const auto process = processes_.find(number);
    if (process == processes_.end()) return;
    if (leaves) return process->second->send_away();
    lose(number);
  });
}

void SimulatedMembers::lose(MemberNumber number) {
  Process& process = *processes_.at(number);
  const int place = process.place();
  process.interrupt();
  cluster_.after(options_.churn.detect + word_takes(), place, [this, number] { master_.lose(number); });
}

std::string SimulatedMembers::run_place(VirtualRank& place, const Main& main) {
  for (;;) {
    if (const auto report = run_process(place, main)) return *report;
    if (is_over() || !options_.churn.back) return {};
    place.compute(*options_.churn.back);
    if (is_over()) return {};
  }
}

std::optional<std::string> SimulatedMembers::run_process(VirtualRank& place, const Main& main) {
  const MemberNumber number = places_.size();
  places_.push_back(place.rank());
  Process process(*this, place, number);
  draw_end(number);
  try {
    const int status = main(process);
    if (status != 0) cluster_.after(word_takes(), place.rank(), [this, number] { master_.lose(number); });
    return std::move(process).reported();
  } catch (const SimulatedLoss&) {
    return std::nullopt;
  } catch (const Left&) {
    // One that was a spare may be in a view of which it has not heard.
    cluster_.after(word_takes(), place.rank(), [this, number] { master_.lose(number); });
    return std::nullopt;
  }
}

}  // namespace stretto
