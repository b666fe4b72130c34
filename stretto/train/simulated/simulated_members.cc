#include "stretto/train/simulated/simulated_members.h"

#include <algorithm>
#include <utility>

#include "stretto/membership/rank_end.h"
#include "stretto/train/simulated/simulated_process.h"

namespace stretto {
namespace {

constexpr Duration kTickEvery = std::chrono::milliseconds(100);  // of the master's clock
constexpr Duration kForOthers = std::chrono::hours(24 * 365);    // where others come in the place of lost ones
constexpr std::uint64_t kGatheringsKept = 2;                     // of the newest epochs

}  // namespace

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

void SimulatedMembers::ask(MemberNumber giver, const Process& comer) {
  cluster_.after(word_takes(), place_of(giver), [this, giver, comer = comer.number()] {
    const auto asks = processes_.find(comer), gives = processes_.find(giver);
    if (asks == processes_.end() || gives == processes_.end() || gives->second->comers_ == nullptr) return;
    if (asks->second->enters_late_) return;  // it has another one's by now
    Process &one = *asks->second, &other = *gives->second;
    const auto world = cluster_.make_world({one.place(), other.place()});
    const View two{.members = {{.number = comer}, {.number = giver}}};
    one.asked_ = std::make_unique<Process::Part>(cluster_.enter(world, 0), one.place_);
    one.asked_->world.engine().name_ranks(two.names());
    const auto beside = std::make_shared<Process::PartBeside>(cluster_.enter(world, 1), other.place_);
    beside->world.engine().name_ranks(two.names());
    other.comers_({beside, &beside->world});
    one.place_.notify();
  });
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
