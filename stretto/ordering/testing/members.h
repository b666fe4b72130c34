#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stretto/ordering/negotiation/coordinator.h"
#include "stretto/ordering/orderer/orderer.h"
#include "stretto/ordering/topo/topo.h"

namespace stretto {

/// All members of one process set, in one thread: a collective is complete as soon as all have begun it. Time passes
/// where every member sleeps or waits for a time.
class OrderingMembers {
 public:
  using MakeCoordinated = std::unique_ptr<Orderer> (*)(const CoordinatorOptions& options);
  explicit OrderingMembers(int members, CoordinatorOptions options = {}, MakeCoordinated make = make_coordinator) {
    for (int m = 0; m < members; ++m) options.ranks.push_back(m);
    for (options.member = 0; options.member < members; ++options.member) members_.push_back({make(options)});
  }
  OrderingMembers(int members, TopoOptions options) {
    for (int m = 0; m < members; ++m) options.coordinator.ranks.push_back(m);
    for (int m = 0; m < members; ++m) {
      options.coordinator.member = m;
      auto& member = members_.emplace_back();
      member.patience = std::make_unique<RankPatience>();
      member.orderer = std::make_unique<Topo>(options, *member.patience);
    }
  }

  Orderer& operator[](int member) { return *at(member).orderer; }
  const Topo& topo(int member) { return dynamic_cast<const Topo&>(*at(member).orderer); }
  const Coordinator& coordinator(int member) { return dynamic_cast<const Coordinator&>(*at(member).orderer); }

  Result<void> submit(int member, const std::string& name, std::uint64_t count = 1) {
    Orderer& orderer = *at(member).orderer;
    return orderer.submitted(orderer.tensor({.name = name, .count = count}), orderer.closed());
  }
  void end_step(int member) { at(member).orderer->step_ended(at(member).orderer->closed()); }
  void wait(int member, const std::string& name, std::uint64_t count = 1) {
    Orderer& orderer = *at(member).orderer;
    orderer.blocked(orderer.tensor({.name = name, .count = count}), now);
  }

  /// Lets the members go on for `time`.
  void run(Duration time) {
    const TimePoint end = now + time;
    for (;;) {
      while (go_on()) {
      }
      TimePoint next = TimePoint::never();
      for (const Member& member : members_) {
        if (!member.ended && member.until > now) next = std::min(next, member.until);
      }
      if (next > end) break;
      now = next;
    }
    now = end;
  }

  TimePoint now;
  /// Valid buffers of member 0, with what each member has brought: "a b: 11 10"; "end": an empty one.
  std::vector<std::string> reduced;
  int void_buffers = 0;
  std::map<OrdererAction::Kind, int> begun;  ///< of member 0
  std::vector<Duration> sleeps;              ///< of member 0
  std::vector<std::string> lines;            ///< of all members
  std::optional<Error> failure(int member) { return at(member).failure; }
  bool ended(int member) { return at(member).ended && !at(member).failure; }
  int controls() {
    return begun[OrdererAction::Kind::sync] + begun[OrdererAction::Kind::gather] +
           begun[OrdererAction::Kind::broadcast] + begun[OrdererAction::Kind::minimum];
  }
  int told = 0;         ///< messages beside the control collectives, of all members
  std::set<int> deaf;   ///< members that hear none of these
  bool frozen = false;  ///< the last member does nothing: it is late

 private:
  struct Member {
    std::unique_ptr<Orderer> orderer;
    std::unique_ptr<RankPatience> patience;
    std::deque<OrdererAction> under_way;  // controls
    std::deque<FusedBuffer> buffers;
    bool ended = false;
    TimePoint until;
    std::optional<Error> failure;
  };
  static std::unique_ptr<Orderer> make_coordinator(const CoordinatorOptions& options) {
    return std::make_unique<Coordinator>(options);
  }
  Member& at(int member) { return members_[static_cast<std::size_t>(member)]; }

  bool go_on() {
    bool moved = false;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      Member& member = members_[m];
      if (member.ended || (frozen && m + 1 == members_.size())) continue;
      const OrdererAction action = member.orderer->next(now);
      for (const std::string& line : member.orderer->take_lines()) lines.push_back(line);
      moved |= take(member, action, m == 0);
    }
    if (complete_control() || complete_buffer()) moved = true;
    return moved;
  }

  bool take(Member& member, const OrdererAction& action, bool first) {
    using Kind = OrdererAction::Kind;
    if (first && action.kind != Kind::wait && action.kind != Kind::sleep) ++begun[action.kind];
    switch (action.kind) {
      case Kind::wait: member.until = action.until; return false;
      case Kind::sleep:
        if (first && member.until != action.until) sleeps.push_back(action.until - now);
        member.until = action.until;
        return false;
      case Kind::fail: member.failure = action.error; [[fallthrough]];
      case Kind::end: member.ended = true; return true;
      case Kind::issue: member.buffers.push_back(action.buffer); return true;
      case Kind::tell:
        ++told;
        if (!deaf.contains(action.to)) {
          const auto taken = at(action.to).orderer->told(static_cast<int>(&member - members_.data()), action.bytes);
          if (!taken) at(action.to).failure = taken.error();
        }
        return true;
      default: member.under_way.push_back(action); return true;
    }
  }

  bool complete_control() {
    for (const Member& member : members_) {
      if (member.under_way.empty()) return false;
    }
    ControlResult result;
    std::vector<std::vector<std::byte>> gathered;
    const OrdererAction& first = members_[0].under_way.front();
    result.control = first.control;
    result.words = first.words;
    result.nap = first.nap;
    result.bytes = first.bytes;
    for (const Member& member : members_) {
      const OrdererAction& action = member.under_way.front();
      for (std::size_t i = 0; i < result.words.size(); ++i) result.words[i] &= action.words[i];
      result.nap = std::min(result.nap, action.nap);
      gathered.push_back(action.bytes);
    }
    for (Member& member : members_) {
      result.gathered = &member == &members_[0] ? gathered : std::vector<std::vector<std::byte>>();
      member.under_way.pop_front();
      member.orderer->control(result);
    }
    return true;
  }

  bool complete_buffer() {
    BufferHeader header{.all_drained = true};
    std::string what;
    for (Member& member : members_) {
      if (member.buffers.empty()) return false;
      const FusedBuffer& buffer = member.buffers.front();
      if (&member == &members_[0]) {
        for (const TensorId id : buffer.tensors) what += member.orderer->description(id).name + " ";
        if (what.empty()) what = "end";
        if (!buffer.tensors.empty()) what.back() = ':';
      }
      if (!buffer.tensors.empty()) what += ' ';
      for (const bool brought : buffer.brought) what += brought ? '1' : '0';
      header.changed |= buffer.changed;
      header.all_drained &= buffer.drained;
    }
    for (Member& member : members_) {
      const SequenceNumber number = member.buffers.front().number;
      member.buffers.pop_front();
      member.orderer->completed(number, header);
      for (const BufferOutcome& outcome : member.orderer->take_outcomes()) {
        if (&member != &members_[0]) continue;
        if (outcome.valid) {
          reduced.push_back(what);
        } else {
          ++void_buffers;
        }
      }
    }
    return true;
  }

  std::vector<Member> members_;
};

}  // namespace stretto
