#include "stretto/dispenser/position.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

namespace stretto {
namespace {

using Json = nlohmann::json;

Error malformed(const std::string& what, const std::string& why) {
  return {Errc::bad_input, text("the data position of a checkpoint ", what, ": ", why)};
}

bool ascending(const std::vector<std::uint64_t>& numbers) {
  return std::adjacent_find(numbers.begin(), numbers.end(), std::greater_equal<>()) == numbers.end();
}

/// An array of non-negative integers.
std::optional<std::vector<std::uint64_t>> numbers_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return std::nullopt;
  for (const auto& number : *found) {
    if (!number.is_number_unsigned()) return std::nullopt;
  }
  return found->get<std::vector<std::uint64_t>>();
}

std::optional<std::uint64_t> number_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

}  // namespace

Result<DispenserPosition> position_after(const DispenserPosition& before, std::span<const RankLog> logs) {
  if (logs.size() != before.steps.size()) {
    return malformed("does not fit", text(logs.size(), " logs for ", before.steps.size(), " ranks"));
  }
  DispenserPosition after = before;
  std::vector<std::uint64_t> used;
  for (std::size_t rank = 0; rank < logs.size(); ++rank) {
    const RankLog& log = logs[rank];
    if (log.deposited > log.handed_out.size()) {
      return malformed("does not fit",
                       text("rank ", rank, " deposited ", log.deposited, " batches and got ", log.handed_out.size()));
    }
    after.steps[rank] += log.deposited;
    for (const auto sequence : log.handed_out) after.next = std::max(after.next, sequence + 1);
    used.insert(used.end(), log.handed_out.begin(),
                log.handed_out.begin() + static_cast<std::ptrdiff_t>(log.deposited));
  }
  std::sort(used.begin(), used.end());
  const auto twice = std::adjacent_find(used.begin(), used.end());
  if (twice != used.end()) return malformed("does not fit", text("batch ", *twice, " was used twice"));

  std::vector<std::uint64_t> open = before.returned;
  for (std::uint64_t sequence = before.next; sequence < after.next; ++sequence) open.push_back(sequence);
  const auto again = std::find_if_not(used.begin(), used.end(), [&](std::uint64_t sequence) {
    return std::binary_search(open.begin(), open.end(), sequence);
  });
  if (again != used.end()) return malformed("does not fit", text("batch ", *again, " was used before, too"));
  after.returned.clear();
  std::set_difference(open.begin(), open.end(), used.begin(), used.end(), std::back_inserter(after.returned));
  return after;
}

DispenserPosition position_after_all(const DispenserPosition& before, std::span<const std::vector<std::uint64_t>> logs,
                                     std::span<const std::uint64_t> in_hand) {
  DispenserPosition after = before;
  std::vector<std::uint64_t> used;
  for (const auto& log : logs) used.insert(used.end(), log.begin(), log.end());
  std::sort(used.begin(), used.end());
  if (!used.empty()) after.next = std::max(after.next, used.back() + 1);
  std::vector<std::uint64_t> open = before.returned;
  for (std::uint64_t sequence = before.next; sequence < after.next; ++sequence) open.push_back(sequence);
  const auto was_handed_out = [&](std::uint64_t sequence) { return sequence < before.next; };
  std::ranges::copy_if(in_hand, std::back_inserter(open), was_handed_out);
  std::sort(open.begin(), open.end());
  open.erase(std::unique(open.begin(), open.end()), open.end());
  after.returned.clear();
  std::set_difference(open.begin(), open.end(), used.begin(), used.end(), std::back_inserter(after.returned));
  return after;
}

DispenserPosition position_from(const DispenserPosition& start, const DispenserPosition& of_rest) {
  const std::uint64_t returned = start.returned.size();
  DispenserPosition position;
  position.steps = start.steps;
  for (const std::uint64_t i : of_rest.returned) {
    position.returned.push_back(i < returned ? start.returned[i] : start.next + (i - returned));
  }
  for (std::uint64_t i = of_rest.next; i < returned; ++i) position.returned.push_back(start.returned[i]);
  position.next = start.next + (of_rest.next - std::min(of_rest.next, returned));
  return position;
}

std::string to_json(const RankLog& log) {
  return Json{{"handed_out", log.handed_out}, {"deposited", log.deposited}}.dump();
}

std::string to_json(const DispenserPosition& position) {
  return Json{{"next", position.next}, {"returned", position.returned}, {"steps", position.steps}}.dump();
}

Result<RankLog> rank_log_from_json(const std::string& written) {
  const Json json = Json::parse(written, nullptr, false);
  if (!json.is_object()) return malformed("cannot be read", "expected a JSON object");
  auto handed_out = numbers_in(json, "handed_out");
  const auto deposited = number_in(json, "deposited");
  if (!handed_out || !deposited || *deposited > handed_out->size()) {
    return malformed("cannot be read", "expected handed_out, a list of numbers, and deposited, at most its length");
  }
  return RankLog{std::move(*handed_out), *deposited};
}

Result<DispenserPosition> position_from_json(const std::string& written) {
  const Json json = Json::parse(written, nullptr, false);
  if (!json.is_object()) return malformed("cannot be read", "expected a JSON object");
  const auto next = number_in(json, "next");
  auto returned = numbers_in(json, "returned");
  auto steps = numbers_in(json, "steps");
  if (!next || !returned || !steps || !ascending(*returned) || (!returned->empty() && returned->back() >= *next)) {
    return malformed("cannot be read", "expected next, steps, and returned, an ascending list of numbers below next");
  }
  DispenserPosition position;
  position.next = *next;
  position.returned = std::move(*returned);
  position.steps = std::move(*steps);
  return position;
}

}  // namespace stretto
