#include "stretto/ordering/waiting/stall_inquiry.h"

#include <algorithm>
#include <variant>

#include "stretto/base/words.h"
#include "stretto/ordering/waiting/stall.h"

namespace stretto {

bool StallInquiry::due(std::optional<TimePoint> since, TimePoint now) {
  if (since != since_) {
    since_ = since;
    limits_.begin();
    open_.reset();
  }
  return since && limits_.ask(*since, now);
}

void StallInquiry::ask(Wait wait) {
  const StallQuestion question{.number = asked_++, .step = wait.step, .buffer = wait.buffer};
  open_ = Open{question, std::move(wait), {}};
  open_->answers.resize(ranks_.size());
  for (int member = 0; member < static_cast<int>(ranks_.size()); ++member) {
    if (member != member_) letters_.emplace_back(member, encode_stall(question));
  }
}

const StallQuestion* StallInquiry::complete(TimePoint now) const {
  if (!open_) return nullptr;
  const auto answered = std::ranges::count_if(open_->answers, [](const auto& answer) { return answer.has_value(); });
  const bool all = answered + 1 >= static_cast<std::ptrdiff_t>(ranks_.size());
  return limits_.over(all, now) ? &open_->question : nullptr;
}

StallNotice StallInquiry::report(StallAnswer mine) {
  Open asked = std::move(*open_);
  open_.reset();
  asked.answers[static_cast<std::size_t>(member_)] = std::move(mine);
  const auto holds_back = [&](const StallAnswer& answer) {
    return answer.step == asked.question.step && answer.holds_back;
  };
  // All have the same plan: whoever lacks the first tensor of all that are lacking has answered with it.
  const StallAnswer* first = nullptr;
  for (const auto& answer : asked.answers) {
    if (answer && holds_back(*answer) && (first == nullptr || answer->place < first->place)) first = &*answer;
  }
  StallReport::Tensor tensor{.name = asked.wait.tensor};
  if (first != nullptr) tensor.name = first->place == StallAnswer::kEndOfStep ? "the end of the step" : first->lacks;
  StallReport report;
  std::vector<int> silent;
  for (std::size_t member = 0; member < ranks_.size(); ++member) {
    const auto& answer = asked.answers[member];
    if (!answer) {
      silent.push_back(ranks_[member]);
      continue;
    }
    const bool lacks = answer->step < asked.question.step || (holds_back(*answer) && answer->place == first->place);
    (lacks ? tensor.lacking : tensor.waiting).push_back(ranks_[member]);
    report.ranks.push_back({ranks_[member], answer->does(asked.question, set_)});
  }
  const bool nobody = tensor.lacking.empty() && silent.empty();
  const bool other = asked.wait.blocks && tensor.name != asked.wait.tensor;
  report.tensors.push_back(std::move(tensor));
  std::string line = limits_.heading(asked.question.step);
  if (other) line += text("rank ", ranks_[static_cast<std::size_t>(member_)], " waits for ", asked.wait.tensor, "; ");
  line += report.to_text();
  if (nobody) line += ", and it is not reduced yet";
  if (!silent.empty()) line += "; " + StallLimits::silence(silent);
  return {std::move(line), limits_.close()};
}

TimePoint StallInquiry::next_look(std::optional<TimePoint> since) const {
  if (!since) return TimePoint::never();
  StallLimits limits = limits_;
  if (since != since_ && !open_) limits.begin();  // due() will
  return limits.next_look(*since);
}

Result<void> StallInquiry::take(int member, std::span<const std::byte> bytes) {
  Result<StallMessage> message = decode_stall(bytes);
  if (!message) return message.error();
  if (const auto* question = std::get_if<StallQuestion>(&*message)) {
    questions_.emplace_back(member, *question);
  } else if (auto& answer = std::get<StallAnswer>(*message); open_ && answer.number == open_->question.number) {
    open_->answers[static_cast<std::size_t>(member)] =
        std::move(answer);  // a later one answers a question that is over
  }
  return {};
}

std::optional<std::pair<int, StallQuestion>> StallInquiry::take_question() {
  if (questions_.empty()) return std::nullopt;
  const auto next = questions_.front();
  questions_.pop_front();
  return next;
}

std::optional<std::pair<int, std::vector<std::byte>>> StallInquiry::take_letter() {
  if (letters_.empty()) return std::nullopt;
  auto next = std::move(letters_.front());
  letters_.pop_front();
  return next;
}

}  // namespace stretto
