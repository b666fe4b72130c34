#include "stretto/membership/views/view.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/grid_side.h"

namespace stretto {
namespace {

using ViewJson = nlohmann::json;

constexpr std::size_t kNumbersOfEnds = 3;
constexpr std::size_t kMostUnused = 4096;
constexpr std::size_t kMostAsked = 4;

/// Throws std::invalid_argument where `fits` is false.
void expect(bool fits, const char* what) {
  if (!fits) throw std::invalid_argument(what);
}

std::uint64_t count_in(const ViewJson& value, const char* what) {
  expect(value.is_number_unsigned(), what);
  return value.get<std::uint64_t>();
}

std::vector<std::uint64_t> counts_in(const ViewJson& value, const char* what) {
  expect(value.is_array(), what);
  std::vector<std::uint64_t> counts;
  for (const ViewJson& one : value) counts.push_back(count_in(one, what));
  return counts;
}

PlacedMember member_in(const ViewJson& value) {
  constexpr const char* kExpected = "members: expected number, host and rounds held of each";
  expect(value.is_array() && value.size() == 3 && value[1].is_string() && value[2].is_number_integer(), kExpected);
  expect(!value[2].is_number_unsigned() || value[2].get<std::uint64_t>() < std::uint64_t{1} << 62, kExpected);
  return {count_in(value[0], kExpected), value[1].get<std::string>(), value[2].get<RoundsHeld>()};
}

bool ascends(const std::vector<MemberNumber>& numbers) {
  return std::ranges::adjacent_find(numbers, std::greater_equal<>()) == numbers.end();
}

/// Throws std::invalid_argument where members contradict one another.
void expect_one_view(const View& view) {
  expect(view.members.empty() == (view.epoch == 0), "members: expected some from epoch 1 on");
  std::set<MemberNumber> numbers;
  for (const PlacedMember& member : view.members) {
    expect(numbers.insert(member.number).second, "members: a number stands there twice");
    expect(member.number < view.next_number, "next_number: a member has this number or a later one");
    expect(member.held >= kNoModel && std::cmp_less_equal(member.held, view.complete),
           "members: one holds more rounds than are complete");
  }
  expect(std::cmp_less_equal(view.rows, view.members.size()), "rows: expected no more than there are members");
  expect(ascends(view.departed), "departed: expected ascending numbers");
  for (const MemberNumber number : view.departed) {
    expect(number < view.next_number && !numbers.contains(number), "departed: the number of a member, or of nobody");
    numbers.insert(number);
  }
  for (const MemberNumber number : view.gives) {
    const auto place = view.place_of(number);
    expect(place && view.members[*place].held != kNoModel, "gives: the number of one that has nothing to give");
  }
  for (const auto& [number, batches] : view.left) {
    expect(view.has_departed(number), "left: the number of one that has not departed");
  }
  expect(ascends(view.unused), "unused: expected ascending numbers");
  for (const MemberNumber number : view.unused) {
    expect(number < view.next_number && !numbers.contains(number), "unused: a number that has been used");
  }
}

Registered registered_in(const ViewJson& object) {
  expect(object.is_object(), "expected an object of JSON");
  Registered read;
  View& view = read.view;
  view.epoch = count_in(object.at("epoch"), "epoch: expected a number");
  expect(object.at("members").is_array(), "members: expected a list");
  for (const ViewJson& member : object.at("members")) view.members.push_back(member_in(member));
  view.complete = count_in(object.at("complete"), "complete: expected a number");
  view.departed = counts_in(object.at("departed"), "departed: expected numbers");
  view.next_number = count_in(object.at("next_number"), "next_number: expected a number");
  view.unused = counts_in(object.at("unused"), "unused: expected numbers");
  if (object.contains("leaving")) view.leaving = counts_in(object.at("leaving"), "leaving: expected numbers");
  if (object.contains("rows")) {
    constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
    view.rows = static_cast<int>(std::min(count_in(object.at("rows"), "rows: expected a number"), kMost));
  }
  if (object.contains("gives")) view.gives = counts_in(object.at("gives"), "gives: expected numbers");
  if (object.contains("left")) {
    constexpr const char* kExpected = "left: expected number and batches of each";
    expect(object.at("left").is_array(), kExpected);
    for (const ViewJson& member : object.at("left")) {
      const auto numbers = counts_in(member, kExpected);
      expect(numbers.size() == 2, kExpected);
      view.left[numbers[0]] = numbers[1];
    }
  }
  view.position = counts_in(object.at("position"), "position: expected numbers");
  expect(object.at("terms").is_object(), "terms: expected an object");
  for (const auto& [name, value] : object.at("terms").items()) {
    expect(value.is_string(), "terms: expected texts");
    view.terms[name] = value.get<std::string>();
  }
  const std::uint64_t end = count_in(object.at("end"), "end: expected a number");
  expect(end < kNumbersOfEnds, "end: expected 0, 1 or 2");
  read.end = static_cast<JobEnd>(end);
  expect_one_view(view);
  return read;
}

}  // namespace

std::optional<std::size_t> View::place_of(MemberNumber number) const {
  const auto found = std::ranges::find(members, number, &PlacedMember::number);
  if (found == members.end()) return std::nullopt;
  return static_cast<std::size_t>(found - members.begin());
}

std::vector<std::string> View::names() const {
  std::vector<std::string> names;
  for (const PlacedMember& member : members) names.push_back(text("member ", member.number));
  return names;
}

std::vector<MemberNumber> View::givers_for(MemberNumber comer) const {
  std::vector<MemberNumber> asked;
  for (std::size_t i = 0; i < std::min(gives.size(), kMostAsked); ++i) {
    asked.push_back(gives[(comer + i) % gives.size()]);
  }
  return asked;
}

bool View::is_awaited() const {
  const auto lacks = [this](const PlacedMember& member) {
    const bool is_given = member.held == kNoModel && !gives.empty();
    return member.held < static_cast<RoundsHeld>(complete) && !is_given;
  };
  return !leaving.empty() || std::ranges::any_of(members, lacks);
}

std::vector<PlacedMember> View::closed_up(std::vector<PlacedMember> stay) const {
  std::vector<PlacedMember> out;
  std::size_t kept = 0;
  for (const PlacedMember& member : members) {
    if (kept < stay.size() && stay[kept].number == member.number) {
      out.push_back(stay[kept++]);
    } else if (kept < stay.size()) {
      out.push_back(stay.back());
      stay.pop_back();
    }
  }
  return out;
}

int View::rows_among(std::size_t members) const {
  return grid_side(static_cast<int>(members), 2, rows);
}

void View::let_go(MemberNumber number, std::uint64_t batches) {
  departed.insert(std::ranges::lower_bound(departed, number), number);
  if (batches > 0) left[number] = batches;
}

bool View::has_departed(MemberNumber number) const {
  return std::ranges::binary_search(departed, number);
}

bool View::may_come_in(MemberNumber number) const {
  if (defect(Defect::members_number_again)) return !has(number);
  return number >= next_number || std::ranges::binary_search(unused, number);
}

void View::use_numbers() {
  std::erase_if(unused, [this](MemberNumber number) { return has(number); });
  MemberNumber next = next_number;
  for (const PlacedMember& member : members) next = std::max(next, member.number + 1);
  const MemberNumber first = std::max(next_number, next - std::min<MemberNumber>(next, kMostUnused));
  for (MemberNumber number = first; number < next; ++number) {
    if (!has(number)) unused.push_back(number);
  }
  if (unused.size() > kMostUnused) unused.erase(unused.begin(), unused.end() - kMostUnused);
  next_number = next;
}

std::string difference_of_terms(const std::map<std::string, std::string>& job,
                                const std::map<std::string, std::string>& own) {
  const auto value = [](const auto& terms, const std::string& name) {
    const auto found = terms.find(name);
    return found == terms.end() ? std::string("none") : found->second;
  };
  for (const auto* terms : {&job, &own}) {
    for (const auto& [name, ignored] : *terms) {
      if (value(job, name) == value(own, name)) continue;
      return text(name, " is ", value(own, name), " here, and ", value(job, name), " in the job");
    }
  }
  return {};
}

std::string Registered::encoded() const {
  ViewJson members = ViewJson::array();
  for (const PlacedMember& member : view.members) {
    members.push_back(ViewJson::array({member.number, member.host, member.held}));
  }
  ViewJson left = ViewJson::array();
  for (const auto& [number, batches] : view.left) left.push_back(ViewJson::array({number, batches}));
  const ViewJson object = {{"epoch", view.epoch},
                           {"members", std::move(members)},
                           {"complete", view.complete},
                           {"departed", view.departed},
                           {"left", std::move(left)},
                           {"position", view.position},
                           {"unused", view.unused},
                           {"next_number", view.next_number},
                           {"leaving", view.leaving},
                           {"gives", view.gives},
                           {"rows", view.rows},
                           {"terms", view.terms},
                           {"end", static_cast<unsigned>(end)}};
  return object.dump(-1, ' ', false, ViewJson::error_handler_t::replace);
}

Result<Registered> Registered::decoded(std::string_view line) {
  try {
    return registered_in(ViewJson::parse(line));
  } catch (const std::exception& wrong) {
    return Error{Errc::bad_input, text("a view cannot be read: ", json_fault(wrong))};
  }
}

}  // namespace stretto
