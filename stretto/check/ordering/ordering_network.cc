#include "stretto/check/ordering/ordering_network.h"

#include <algorithm>
#include <utility>

#include "stretto/base/words.h"

namespace stretto {
namespace {

using Kind = OrdererAction::Kind;

constexpr std::uint64_t kMostCycles = 2;  // until what all have submitted is issued

bool all_of(const std::vector<bool>& flags) {
  return std::ranges::all_of(flags, [](bool flag) { return flag; });
}

}  // namespace

OrderingNetwork::OrderingNetwork(const OrderingJob& job, int set)
    : job_(job),
      set_(set),
      ranks_(job.sets[static_cast<std::size_t>(set)]),
      next_control_(ranks_.size()),
      next_buffer_(ranks_.size()),
      done_control_(ranks_.size()),
      done_buffer_(ranks_.size()),
      told_(ranks_.size()),
      drained_(ranks_.size()) {}

void OrderingNetwork::violated(const std::string& what) {
  if (!violation_) violation_ = text("set ", set_, ": ", what);
}

OrderingNetwork::Heard& OrderingNetwork::heard_of(std::uint64_t step) {
  Heard& heard = heard_[step];
  heard.submitted.resize(job_.tensors.size(), std::vector<bool>(members()));
  heard.ended.resize(members());
  heard.cycle.resize(job_.tensors.size());
  return heard;
}

void OrderingNetwork::note_complete(std::uint64_t cycles) {
  newest_cycle_ = std::max(newest_cycle_, cycles);
  for (auto& [step, heard] : heard_) {
    for (std::size_t t = 0; t < heard.submitted.size(); ++t) {
      bool there = !heard.cycle[t] && std::ranges::count(heard.submitted[t], true) > 0;
      for (std::size_t m = 0; m < members(); ++m) there &= heard.submitted[t][m] || heard.ended[m] || drained_[m];
      if (there) heard.cycle[t] = newest_cycle_;
    }
  }
}

void OrderingNetwork::told_submitted(int member, std::uint64_t step, int tensor, std::uint64_t cycles) {
  heard_of(step).submitted[static_cast<std::size_t>(tensor)][static_cast<std::size_t>(member)] = true;
  note_complete(cycles);
}

void OrderingNetwork::told_ended(int member, std::uint64_t step, std::uint64_t cycles) {
  heard_of(step).ended[static_cast<std::size_t>(member)] = true;
  note_complete(cycles);
}

void OrderingNetwork::told_drained(int member, std::uint64_t cycles) {
  drained_[static_cast<std::size_t>(member)] = true;
  note_complete(cycles);
}

void OrderingNetwork::check_promptness(const FusedBuffer& buffer, const std::vector<TensorDescription>& tensors,
                                       std::uint64_t cycles) {
  newest_cycle_ = std::max(newest_cycle_, cycles);
  heard_.erase(heard_.begin(), heard_.lower_bound(buffer.step));
  Heard& heard = heard_of(buffer.step);
  for (const TensorDescription& tensor : tensors) {
    const auto since = heard.cycle[static_cast<std::size_t>(job_.number_of(tensor.name))];
    if (since && cycles > *since + kMostCycles) {
      violated(text("O6: tensor ", tensor.name, " is issued in cycle ", cycles, ", and was there in cycle ", *since));
    }
  }
}

void OrderingNetwork::begin(int member, const OrdererAction& action, std::vector<TensorDescription> descriptions) {
  if (action.kind == Kind::issue) {
    begin_buffer(member, action.buffer, std::move(descriptions));
  } else {
    begin_control(member, action);
  }
}

OrderingNetwork::Control& OrderingNetwork::control_at(std::size_t k, const OrdererAction& action) {
  if (controls_.size() == k) {
    Control& first = controls_.emplace_back();
    first.kind = action.kind;
    first.begun.resize(members());
    first.words = action.words;
    first.bytes.resize(members());
    first.nap = action.nap;
  }
  return controls_[k];
}

void OrderingNetwork::begin_control(int member, const OrdererAction& action) {
  const auto m = static_cast<std::size_t>(member);
  const std::size_t k = next_control_[m]++;
  if (action.control != k) violated(text("O9: member ", member, " begins control ", action.control, ", expected ", k));
  Control& control = control_at(k, action);
  if (control.kind != action.kind || control.words.size() != action.words.size()) {
    return violated(text("O9: control ", k, " of member ", member, " is another collective than that of the others"));
  }
  for (std::size_t i = 0; i < control.words.size(); ++i) control.words[i] &= action.words[i];
  control.bytes[m] = action.bytes;
  control.nap = std::min(control.nap, action.nap);
  control.begun[m] = true;
  ++controls_begun_;
  if (!cache_.empty()) {
    if (!control.cache) control.cache = cache_;
    if (*control.cache != cache_) violated(text("O4: member ", member, " has another cache before control ", k));
    cache_.clear();
  }
}

void OrderingNetwork::check_cache(const std::vector<std::optional<TensorId>>& cached, const Orderer& orderer) {
  for (const auto& id : cached) cache_.push_back(id ? std::optional(orderer.description(*id)) : std::nullopt);
}

void OrderingNetwork::outcome(int member, const BufferOutcome& outcome) {
  Buffer& buffer = buffers_[outcome.number];
  if (!buffer.valid) buffer.valid = outcome.valid;
  if (*buffer.valid != outcome.valid) {
    violated(
        text("O5: buffer ", outcome.number, " is ", outcome.valid ? "valid" : "void", " on member ", member, " alone"));
  }
}

std::optional<OrderingNetwork::Told> OrderingNetwork::take_told(int member) {
  auto& all = told_[static_cast<std::size_t>(member)];
  if (all.empty()) return std::nullopt;
  Told told = std::move(all.front());
  all.pop_front();
  return told;
}

bool OrderingNetwork::may_complete_control(int member) const {
  const auto m = static_cast<std::size_t>(member);
  const std::size_t k = done_control_[m];
  if (k == next_control_[m]) return false;
  const Control& control = controls_[k];
  if (control.kind == Kind::broadcast) return control.begun[0];
  return (control.kind == Kind::gather && member != 0) || all_of(control.begun);
}

std::optional<ControlResult> OrderingNetwork::complete_control(int member) {
  if (!may_complete_control(member)) return std::nullopt;
  const std::size_t k = done_control_[static_cast<std::size_t>(member)]++;
  const Control& control = controls_[k];
  ControlResult result{.control = k, .nap = control.nap};
  if (control.kind == Kind::sync) result.words = control.words;
  if (control.kind == Kind::gather && member == 0) result.gathered = control.bytes;
  if (control.kind == Kind::broadcast) result.bytes = control.bytes[0];
  return result;
}

void OrderingNetwork::begin_buffer(int member, const FusedBuffer& buffer, std::vector<TensorDescription> descriptions) {
  const auto m = static_cast<std::size_t>(member);
  const std::size_t n = next_buffer_[m]++;
  if (buffer.number != n) violated(text("O1: member ", member, " issues buffer ", buffer.number, ", expected ", n));
  if (buffers_.size() == n) {
    Buffer& first = buffers_.emplace_back();
    first.what = buffer;
    first.tensors = descriptions;
    first.begun.resize(members());
    first.sums.resize(descriptions.size());
    first.header.all_drained = true;
  }
  Buffer& one = buffers_[n];
  one.brought.resize(one.tensors.size());
  if (one.tensors != descriptions || one.what.step != buffer.step || one.what.sequence_hash != buffer.sequence_hash) {
    return violated(text("O1: buffer ", n, " of member ", member, ", step ", buffer.step,
                         ", is another than that of the others, step ", one.what.step));
  }
  for (std::size_t i = 0; i < descriptions.size(); ++i) {
    if (!buffer.brought[i]) continue;
    one.sums[i] += job_.value(ranks_[m], buffer.step, job_.number_of(descriptions[i].name));
    one.brought[i] = true;
  }
  one.header.changed |= buffer.changed;
  one.header.all_drained &= buffer.drained;
  one.begun[m] = true;
}

bool OrderingNetwork::may_complete_buffer(int member) const {
  const std::size_t n = done_buffer_[static_cast<std::size_t>(member)];
  return n < buffers_.size() && all_of(buffers_[n].begun);
}

std::optional<OrderingNetwork::Complete> OrderingNetwork::complete_buffer(int member) {
  if (!may_complete_buffer(member)) return std::nullopt;
  const std::size_t n = done_buffer_[static_cast<std::size_t>(member)]++;
  const Buffer& one = buffers_[n];
  return Complete{n, one.header, one.what.step, one.tensors, one.sums, one.brought};
}

}  // namespace stretto
