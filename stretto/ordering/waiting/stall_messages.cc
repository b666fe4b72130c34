#include "stretto/ordering/waiting/stall_messages.h"

#include <cmath>
#include <limits>

#include "stretto/base/words.h"
#include "stretto/ordering/orderer/byte_stream.h"

namespace stretto {
namespace {

constexpr std::uint64_t kQuestion = 0, kAnswer = 1;
constexpr std::size_t kMostNameBytes = 1024;

std::string cut(const std::string& name) {
  return name.size() <= kMostNameBytes ? name : name.substr(0, kMostNameBytes) + "…";
}

}  // namespace

std::string StallAnswer::does(const StallQuestion& asked, int set) const {
  if (drained) return "has drained";
  const std::string where = step < asked.step ? text("is in step ", step, " and ") : "";
  const double tenths = std::round(10 * seconds(since)) / 10;
  if (!waits_for.empty()) {
    return text(where, "has waited ", tenths, " s for ", waits_for, waits_in == set ? "" : text(" of set ", waits_in));
  }
  return where + (ended ? std::string("has ended the step") : text("has computed for ", tenths, " s"));
}

std::vector<std::byte> encode_stall(const StallMessage& message) {
  ByteWriter out;
  if (const auto* question = std::get_if<StallQuestion>(&message)) {
    out.number(kQuestion);
    out.number(question->number);
    out.number(question->step);
    out.number(question->buffer);
    return out.take();
  }
  const auto& answer = std::get<StallAnswer>(message);
  out.number(kAnswer);
  out.number(answer.number);
  out.number(answer.step);
  out.number(std::uint64_t{answer.holds_back} | std::uint64_t{answer.ended} << 1 | std::uint64_t{answer.drained} << 2);
  out.number(answer.place);
  out.words(cut(answer.lacks));
  out.words(cut(answer.waits_for));
  out.number(static_cast<std::uint64_t>(answer.waits_in));
  out.number(static_cast<std::uint64_t>(answer.since.count()));
  return out.take();
}

Result<StallMessage> decode_stall(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const std::uint64_t kind = in.number();
  if (kind == kQuestion) {
    StallQuestion question;
    question.number = in.number();
    question.step = in.number();
    question.buffer = in.number();
    if (in.whole()) return StallMessage(question);
  } else if (kind == kAnswer) {
    StallAnswer answer;
    answer.number = in.number();
    answer.step = in.number();
    const std::uint64_t flags = in.number();
    answer.holds_back = (flags & 1) != 0;
    answer.ended = (flags & 2) != 0;
    answer.drained = (flags & 4) != 0;
    answer.place = in.number();
    answer.lacks = in.words();
    answer.waits_for = in.words();
    const std::uint64_t set = in.number(), since = in.number();
    answer.waits_in = static_cast<int>(set);
    answer.since = Duration(static_cast<std::int64_t>(since));
    const bool fits = flags <= 7 && set <= std::uint64_t{std::numeric_limits<int>::max()} &&
                      since <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    if (in.whole() && fits) return StallMessage(answer);
  }
  return Error{Errc::bad_input, "a message about a stall that cannot be read"};
}

}  // namespace stretto
