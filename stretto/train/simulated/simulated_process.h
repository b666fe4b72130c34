#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/membership/changes.h"
#include "stretto/membership/rank_end.h"
#include "stretto/membership/views/asked_givers.h"
#include "stretto/membership/views/companions.h"
#include "stretto/membership/views/member.h"
#include "stretto/membership/views/members_in_words.h"
#include "stretto/train/simulated/simulated_members.h"

namespace stretto {

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
  int rank() override { return (void)world(), static_cast<int>(*view().place_of(number())); }
  int size() override { return (void)world(), static_cast<int>(view().members.size()); }
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
  const View& view() const override { return given_in_ != nullptr ? *given_in_ : member_.view(); }
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
  bool is_given_beside() const override { return given_in_ != nullptr && !enters_late_; }
  bool some_may_meet() const override { return true; }
  std::shared_ptr<const View> newest_view(std::uint64_t, Duration) override { return member_.newest(); }
  std::unique_ptr<Following> follow(WorldBeside beside) override;
  std::unique_ptr<Following> follow_comers(std::function<void(std::shared_ptr<World>)> asked) override;

  void hear(const MasterWords& words);
  void send_away() {
    told_to_leave_ = true;
    place_.notify();
  }
  void interrupt() { place_.interrupt(std::make_exception_ptr(SimulatedLoss())); }
  std::string reported() && { return std::move(report_); }

 private:
  friend class SimulatedMembers;
  friend class Follower;
  class FollowerOfComers;
  /// The process's end of one world.
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
  /// The master hears that this process has begun in the next view, where nobody waits in that.
  void begin_late();
  /// Asks a member of a view for its state. False: it has not come in time, or the view is over.
  bool ask_for_state(const std::shared_ptr<const View>& view);
  bool is_over(const View& view) const {
    const auto next = member_.next();
    return !next || next->epoch != view.epoch;
  }
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
  std::shared_ptr<const View> given_in_;  // in which it is given the state of a member beside training, or was
  std::unique_ptr<Part> asked_;           // the world in which it may be given that
  AskedGivers asked_givers_;
  MemberNumber giver_ = 0;                              // the last one
  std::function<void(std::shared_ptr<World>)> comers_;  // FollowerOfComers'; or null
  std::vector<Follower*> followers_;
};

/// Has those that come ask a process.
class SimulatedMembers::Process::FollowerOfComers final : public Following {
 public:
  FollowerOfComers(Process& process, std::function<void(std::shared_ptr<World>)> asked) : process_(process) {
    process_.comers_ = std::move(asked);
  }
  ~FollowerOfComers() override { process_.comers_ = nullptr; }
  FollowerOfComers(const FollowerOfComers&) = delete;
  FollowerOfComers& operator=(const FollowerOfComers&) = delete;
  void look() override {}

 private:
  Process& process_;
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

}  // namespace stretto
