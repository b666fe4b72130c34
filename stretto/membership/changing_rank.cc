#include "stretto/membership/changing_rank.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "stretto/base/machine/host_name.h"
#include "stretto/membership/changes.h"
#include "stretto/membership/etcd/etcd.h"
#include "stretto/membership/following_thread.h"
#include "stretto/membership/giving_thread.h"
#include "stretto/membership/hosts/members/master_line.h"
#include "stretto/membership/hosts/members/member_meetings.h"
#include "stretto/membership/joined_rank.h"
#include "stretto/membership/masters/job_address.h"
#include "stretto/membership/member_worlds.h"
#include "stretto/membership/processes/job_signals.h"
#include "stretto/membership/shm_rank_context.h"
#include "stretto/membership/views/asked_givers.h"
#include "stretto/membership/views/member.h"

namespace stretto {
namespace {

constexpr std::chrono::milliseconds kLookEvery{100};
constexpr Duration kWaitsLong = std::chrono::seconds(1);       // for the members of its world, and says so then
constexpr Duration kForTheOthers = std::chrono::minutes(5);    // to end, at the end of the job
constexpr Duration kToHearAReport = std::chrono::seconds(10);  // for the master

/// Thrown by a wait for the others of a world that has stopped before this rank was in it.
struct Stopped {};

/// A rank of a job whose members change. The network's thread and the application share it, behind one mutex.
class ChangingRank final : public SayingRankContext, public Changes {
 public:
  explicit ChangingRank(ChangingRankOptions options)
      : SayingRankContext(options.say),
        options_(std::move(options)),
        notice_(options_.starter > 0 ? options_.starter : parent_of(::getsid(0))),
        member_(options_.number, host_name(), options_.terms),
        look_(options_.look) {}

  ~ChangingRank() override {
    {
      const std::lock_guard lock(mutex_);
      engine_ = nullptr;  // nobody stops it from now on
    }
    old_.clear();
    // Where the job is over nobody is lost; else the others of this world have heard of it, or will.
    joining_ = false;
    if (part_ != nullptr && given_in_ == nullptr && member_.standing() == Standing::finished) part_from_world();
    part_.reset();
  }
  ChangingRank(const ChangingRank&) = delete;
  ChangingRank& operator=(const ChangingRank&) = delete;

  World& world() override {
    if (part_ == nullptr) come();
    return part_->context().world();
  }
  int rank() override { return (void)world(), static_cast<int>(*view().place_of(number())); }
  int size() override { return (void)world(), static_cast<int>(view().members.size()); }
  SharedCounter& counter(int index) override {
    throw UsageError(text("counter ", index,
                          " of a job whose members change: there is none that outlives a member; "
                          "batches come from the job's pool"));
  }
  std::span<std::byte> extra() override { return {}; }
  bool interrupted() override { return options_.interrupted && options_.interrupted(); }
  Changes* changes() override { return this; }
  void report(std::string report) override;

  const Clock& clock() const override { return clock_; }
  const View& view() const override { return given_in_ != nullptr ? *given_in_ : member_.view(); }
  MemberNumber number() const override { return member_.number(); }
  int local_rank() override { return options_.place; }
  int place() const override { return options_.place; }
  int most() const override { return options_.most; }
  bool changing() const override { return changing_.load(std::memory_order_acquire); }
  void holds(std::function<Holding()> holding) override {
    const std::lock_guard lock(mutex_);
    holding_ = std::move(holding);
  }
  void enter() override { (void)enter_next(false); }
  [[nodiscard]] bool enter_if_awaited() override { return enter_next(true); }
  [[nodiscard]] bool begin() override;
  [[nodiscard]] bool finish() override;
  bool told_to_leave() const override { return sent_away_.load(std::memory_order_relaxed) || notice_.has_come(); }
  void leave() override;
  void require_master() const override {
    const std::lock_guard lock(mutex_);
    if (over_ && member_.standing() == Standing::present) throw Failure(*over_);
  }
  void waits(bool does) override {
    if (waits_.exchange(does) == does) return;
    line_->write(ProcessWords::of(does ? ProcessWords::Kind::waits : ProcessWords::Kind::goes_on));
  }
  void handed_over(std::uint64_t batches) override { handed_over_ = batches; }
  std::optional<std::uint64_t> take(std::uint64_t batches, std::uint64_t plan) override;
  void enters_late() override { enters_late_.store(true, std::memory_order_relaxed); }
  bool is_given_beside() const override { return given_in_ != nullptr && !enters_late_; }
  bool some_may_meet() const override { return line_.has_value(); }
  std::shared_ptr<const View> newest_view(std::uint64_t known, Duration within) override;
  std::unique_ptr<Following> follow(WorldBeside beside) override {
    return std::make_unique<FollowingThread>(*this, std::move(beside), meets());
  }
  std::unique_ptr<Following> follow_comers(std::function<void(std::shared_ptr<World>)> asked) override {
    return std::make_unique<GivingThread>(*this, std::move(asked), meets());
  }

 private:
  std::shared_ptr<World> meet(const std::string& name, const std::vector<MemberNumber>& members,
                              const std::function<void()>& look);
  FollowingThread::Meet meets() {
    return [this](const auto& name, const auto& members, const auto& look) { return meet(name, members, look); };
  }
  /// Comes to the job, and into its first world.
  void come() {
    connect();
    enter();
  }
  /// Says hello, and waits for the answer; where there is no master, as long as another one may come.
  void connect();
  void connect_once();
  ProcessWords hello() const { return {.hello = member_.hello(), .taken = taken_, .words = process_}; }
  /// Says over a new connection all that may have been lost with the one before, or with another master.
  void say_again(MasterLine& line);
  /// The same words in all members, whichever master they have.
  std::string job() const {
    return options_.etcd.empty() ? text(options_.host, ':', options_.port)
                                 : EtcdAddress::parse(options_.etcd).or_throw().name;
  }
  std::string listener() const { return text("the process that listens at ", options_.host, ':', options_.port); }
  void part_from_world() noexcept {
    try {
      (void)part_->leave(kForTheOthers);
    } catch (...) {  // NOLINT(bugprone-empty-catch): what `look` throws; the others need nothing of this rank any more
    }
  }
  void hear(MasterLine& line, const MasterWords& words);
  void freeze(MasterLine& line, std::uint64_t epoch);
  /// The engine of its world, for good, and whoever waits in a call of it.
  void stand_still();
  Holding holding() const;
  /// Waits until `done`, which is called with the mutex locked. Throws what keeps this rank from going on.
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, Done done);
  /// The same, without waiting; with the mutex locked.
  void require_present() const;
  [[noreturn]] void go() const {
    notice_.end();
    throw Left();
  }
  std::unique_ptr<PartOfJob> join(const View& view);
  /// False: `if_awaited`, and nobody waits in it.
  bool enter_next(bool if_awaited);
  /// Meets one that gives its state beside training. Throws Stopped where it has not come in time, or the view is over.
  std::unique_ptr<PartOfJob> meet_giver(const View& view);
  /// With the mutex locked: the master hears that this rank has begun in the next view, where nobody waits in that.
  void begin_late(MasterLine& line);
  bool holds_model(const View& view) const { return view.members[*view.place_of(number())].held != kNoModel; }
  Result<std::unique_ptr<PartOfJob>> meet_in(MemberWorld world) {
    if (const auto it = options_.terms.find("between"); it != options_.terms.end()) world.between = it->second;
    return meet_members(world, number(), text(job(), ' ', digits_of(options_.token)), *line_, meetings_);
  }

  const ChangingRankOptions options_;
  const std::string process_ = digits_of(new_token());  // by which the master knows this one among those of its number
  const LeaveNotice notice_;
  const SteadyClock clock_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Member member_;
  bool answered_ = false;      // the master has
  bool under_way_ = false;     // the job has had a view
  std::optional<Error> over_;  // there is no master any more, or it has refused this process
  std::function<Holding()> holding_;
  std::optional<ProcessWords> asked_;                 // for a batch, and there is no answer
  std::optional<ProcessWords> result_;                // that it has reported, and the master has not heard
  std::uint64_t taken_ = 0;                           // batches that have come
  std::deque<std::optional<std::uint64_t>> batches_;  // answers that nobody has taken
  std::atomic<bool> changing_{false}, sent_away_{false}, enters_late_{false};
  std::atomic<bool> waits_{false};  // and has said so; the application alone writes it
  Engine* engine_ = nullptr;        // of the present world
  MemberMeetings meetings_{[this](const ProcessWords& words) { line_->write(words); }};

  // The application thread's.
  Look look_;
  std::shared_ptr<const View> given_in_;  // in which it is given the state of a member beside training, or was
  AskedGivers asked_givers_;
  bool joining_ = false;                         // it waits for the others of a view
  std::uint64_t handed_over_ = 0;                // batches of the pool
  std::vector<std::unique_ptr<PartOfJob>> old_;  // of the worlds before, since this one has not begun
  std::unique_ptr<PartOfJob> part_;              // of the present world

  std::optional<MasterLine> line_;  // ends first
};

void ChangingRank::connect() {
  const TimePoint none_comes = clock_.now() + options_.patience;
  for (;;) {
    try {
      return connect_once();
    } catch (const Failure& failure) {
      if (failure.error().code != Errc::unavailable || clock_.now() >= none_comes) throw;
    }
    line_.reset();
    if (told_to_leave()) go();
    look_.at(clock_.now());
    std::unique_lock lock(mutex_);
    over_.reset();
    changed_.wait_for(lock, kLookEvery);
  }
}

void ChangingRank::connect_once() {
  const auto hear_words = [this](MasterLine& line, const MasterWords& words) { hear(line, words); };
  const auto end = [this](const Error& why) {
    const std::lock_guard lock(mutex_);
    const Error is_none{Errc::unavailable, text(listener(), " is no master of this job: ", why.message)};
    const Error is_lost{Errc::lost_peer, text("the master of the job is lost: ", why.message)};
    if (!over_) over_ = answered_ ? is_lost : is_none;
    changed_.notify_all();
  };
  line_.emplace(MasterLineOptions{.host = options_.host,
                                  .port = options_.port,
                                  .find = JobAddress{.etcd = options_.etcd}.finder(),
                                  .token = options_.token,
                                  .hear = hear_words,
                                  .ended = end,
                                  .anew = [this](MasterLine& line) { say_again(line); }});
  line_->write(hello());
  const SteadyClock clock;
  const TimePoint late = clock.now() + options_.answer_within;
  std::unique_lock lock(mutex_);
  wait(lock, [&] {
    if (answered_ || clock.now() < late) return answered_;
    throw Failure({Errc::unavailable, text(listener(), " has not answered within ", to_text(options_.answer_within),
                                           ": expected the master of this job")});
  });
}

void ChangingRank::say_again(MasterLine& line) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t epoch = member_.view().epoch;
  line.write(hello());  // by which the master asks again what this rank holds, where it has
  meetings_.say_again();
  if (member_.has_begun()) line.write({.kind = ProcessWords::Kind::begun, .epoch = epoch});
  if (member_.is_done()) line.write({.kind = ProcessWords::Kind::done, .epoch = epoch});
  if (member_.is_leaving()) line.write({.kind = ProcessWords::Kind::leaving});
  line.write(ProcessWords::of(waits_ ? ProcessWords::Kind::waits : ProcessWords::Kind::goes_on));
  if (asked_) line.write(*asked_);
  if (result_) line.write(*result_);
}

/// The process may end right after it: by then the master has it.
void ChangingRank::report(std::string report) {
  SayingRankContext::report(report);
  if (!line_ || !options_.terms.contains(kReportsTo)) return;
  std::unique_lock lock(mutex_);
  result_ = ProcessWords{.kind = ProcessWords::Kind::result, .words = std::move(report)};
  line_->write(*result_);
  changed_.wait_for(lock, kToHearAReport, [this] { return !result_ || over_; });
}

void ChangingRank::hear(MasterLine& line, const MasterWords& words) {
  if (words.kind == MasterWords::Kind::freeze) return freeze(line, words.epoch);
  const std::lock_guard lock(mutex_);
  switch (words.kind) {
    case MasterWords::Kind::tell:
      answered_ = true;
      under_way_ |= words.content->view.epoch > 0;
      member_.tell(words.content);
      if (member_.standing() == Standing::excluded) stand_still();  // nobody asks it to, and it may wait in a round
      begin_late(line);
      break;
    case MasterWords::Kind::batch:
      if (!asked_ || asked_->taken != words.taken) break;  // it was asked twice
      asked_.reset();
      taken_ += words.batch ? 1 : 0;
      batches_.push_back(words.batch);
      break;
    case MasterWords::Kind::refuse:
      over_ = Error{Errc::bad_input, text("this process is not let in: ", words.why)};
      break;
    case MasterWords::Kind::meet: meetings_.hear(words); break;
    case MasterWords::Kind::leave: sent_away_.store(true, std::memory_order_relaxed); break;
    case MasterWords::Kind::heard: result_.reset(); break;
    default: break;
  }
  changed_.notify_all();
}

void ChangingRank::begin_late(MasterLine& line) {
  const auto next = member_.next();
  if (enters_late_ && next && !next->is_awaited()) {
    line.write({.kind = ProcessWords::Kind::begun, .epoch = next->epoch});
  }
}

void ChangingRank::stand_still() {
  if (engine_ == nullptr) return;
  engine_->freeze();
  changing_.store(true, std::memory_order_release);
}

/// The engine stops before what the rank holds is counted, and nothing of its world is counted afterwards.
void ChangingRank::freeze(MasterLine& line, std::uint64_t epoch) {
  std::unique_lock lock(mutex_);
  if (!member_.freeze(epoch)) return line.write(hello());
  if (epoch >= member_.view().epoch) stand_still();
  ReportWords report = member_.report(epoch, holding());
  report.gives = enters_late_;
  line.write(ProcessWords{.kind = ProcessWords::Kind::report, .report = report});
  changed_.notify_all();
}

Holding ChangingRank::holding() const {
  if (holding_) return holding_();
  const View& view = member_.view();
  const auto place = view.place_of(member_.number());
  if (!place) return {};
  return {.held = member_.has_begun() ? static_cast<RoundsHeld>(view.complete) : view.members[*place].held};
}

void ChangingRank::require_present() const {
  if (member_.has_gone(told_to_leave())) go();
  member_.require_present();
  if (over_ && member_.standing() != Standing::finished) throw Failure(*over_);
}

template <class Done>
void ChangingRank::wait(std::unique_lock<std::mutex>& lock, Done done) {
  const SteadyClock clock;
  while (!done()) {
    require_present();
    changed_.wait_for(lock, kLookEvery);
    lock.unlock();
    look_.at(clock.now());
    lock.lock();
  }
}

/// Meets the other members of a view. Throws Stopped where that view is over before.
std::unique_ptr<PartOfJob> ChangingRank::join(const View& view) {
  // The part of a world keeps it for its end, where nothing stops it.
  const auto look = [this, epoch = view.epoch, began = clock_.now()] {
    if (joining_) {
      if (clock_.now() - began >= kWaitsLong) waits(true);
      const std::lock_guard lock(mutex_);
      const auto next = member_.next();
      if (!next || next->epoch != epoch) throw Stopped{};
      require_present();
    }
    if (options_.look) options_.look();
  };
  joining_ = true;
  return meet_in({.of = view, .name = text("epoch ", view.epoch), .is_of_all = true, .look = look}).or_throw();
}

bool ChangingRank::enter_next(bool if_awaited) {
  for (;;) {
    std::shared_ptr<const View> view;
    {
      std::unique_lock lock(mutex_);
      const auto is_over = [this] {
        const bool is_spare = under_way_ && member_.view().epoch == 0 && !member_.next();
        if (is_spare && told_to_leave()) go();
        return member_.standing() == Standing::finished;
      };
      wait(lock, [&] { return member_.next() != nullptr || is_over(); });
      if (is_over()) throw Left("the job has ended before this process came in");
      view = member_.next();
      if (if_awaited && !view->is_awaited()) return false;
    }
    waits(false);  // the master knows nothing of those that wait for this view
    std::unique_ptr<PartOfJob> part;
    const bool is_given = !enters_late_ && !view->gives.empty() && !holds_model(*view);
    try {
      part = is_given ? meet_giver(*view) : join(*view);
      joining_ = false;
    } catch (const Stopped&) {
      continue;
    } catch (const Failure& failure) {
      if (failure.error().code == Errc::unavailable) throw;  // memory, or what else a world takes of the host
      // Another member has been lost on its way: then the master stops this view.
      std::unique_lock lock(mutex_);
      require_present();
      changed_.wait_for(lock, kLookEvery);  // else this one would try again at once, for as long as the others do not
      continue;
    }
    (void)part->context().world().driver();  // before anybody can want it stopped
    const std::lock_guard lock(mutex_);
    const auto next = member_.next();
    if (!next || next->epoch != view->epoch) continue;
    waits(false);
    if (part_ != nullptr && given_in_ == nullptr) old_.push_back(std::move(part_));
    part_ = std::move(part);
    given_in_ = is_given ? view : nullptr;
    if (is_given) return true;
    engine_ = &part_->context().world().engine();
    member_.enter();
    changing_.store(false, std::memory_order_release);
    return true;
  }
}

bool ChangingRank::begin() {
  std::unique_lock lock(mutex_);
  if (given_in_ != nullptr) {
    enters_late_ = true;
    changing_.store(true, std::memory_order_release);
    begin_late(*line_);
    return true;
  }
  if (!member_.begin()) return false;
  lock.unlock();
  line_->write({.kind = ProcessWords::Kind::begun, .epoch = view().epoch});
  old_.clear();
  return true;
}

bool ChangingRank::finish() {
  {
    const std::lock_guard lock(mutex_);
    if (!member_.finish()) return false;
  }
  line_->write({.kind = ProcessWords::Kind::done, .epoch = view().epoch});
  std::unique_lock lock(mutex_);
  wait(lock, [this] { return member_.standing() == Standing::finished || changing(); });
  if (member_.standing() != Standing::finished) return false;
  notice_.end();
  return true;
}

void ChangingRank::leave() {
  {
    const std::lock_guard lock(mutex_);
    if (member_.is_leaving()) return;
    member_.leave();
  }
  line_->write({.kind = ProcessWords::Kind::leaving});
}

std::optional<std::uint64_t> ChangingRank::take(std::uint64_t batches, std::uint64_t plan) {
  (void)world();  // it comes to the job
  std::unique_lock lock(mutex_);
  asked_ = ProcessWords{
      .kind = ProcessWords::Kind::take, .batches = batches, .plan = plan, .taken = taken_, .computed = handed_over_};
  line_->write(*asked_);
  wait(lock, [this] { return !batches_.empty(); });
  const auto batch = batches_.front();
  batches_.pop_front();
  return batch;
}

std::shared_ptr<const View> ChangingRank::newest_view(std::uint64_t known, Duration within) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, within, [&] { return member_.newest()->epoch != known; });
  return member_.newest();
}

std::unique_ptr<PartOfJob> ChangingRank::meet_giver(const View& view) {
  const auto [giver, within] = asked_givers_.next(view, number());
  const View two{.epoch = view.epoch, .members = {{.number = number()}, {.number = giver}}};
  const auto look = [&, late = clock_.now() + within] {
    if (options_.look) options_.look();
    const std::lock_guard lock(mutex_);
    const auto next = member_.next();
    if (!next || next->epoch != view.epoch || clock_.now() >= late) throw Stopped{};
    require_present();
  };
  return meet_in({.of = two, .name = name_of_asking(number(), giver), .look = look}).or_throw();
}

std::shared_ptr<World> ChangingRank::meet(const std::string& name, const std::vector<MemberNumber>& members,
                                          const std::function<void()>& look) {
  View some{.epoch = newest_view(0, Duration(0))->epoch};
  for (const MemberNumber member : members) some.members.push_back({.number = member});
  auto part = meet_in({.of = some, .name = name, .look = look});
  if (!part) return nullptr;
  const std::shared_ptr<PartOfJob> met = std::move(*part);
  return {met, &met->context().world()};
}

}  // namespace

std::unique_ptr<RankContext> make_changing_rank(ChangingRankOptions options) {
  return std::make_unique<ChangingRank>(std::move(options));
}

}  // namespace stretto
