#include "stretto/ordering/options/ordering_options.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/ordering/negotiation/cycle_fix.h"

namespace stretto {
namespace {

/// The widest element: a buffer that is smaller has room for none.
constexpr std::uint64_t kWidestElement = 8;

/// "expected none, coordinator, scp or topo".
std::string expected() {
  std::vector<std::string> names = {"none", "coordinator"};
  for (const CycleFix* fix : cycle_fixes()) names.emplace_back(fix->name);
  names.insert(names.end(), {"scp", "topo"});
  for (const CycleFix* fix : cycle_fixes()) names.push_back(text(fix->name, "+scp"));
  std::string out = "expected " + names.front();
  for (std::size_t i = 1; i < names.size(); ++i) out += text(i + 1 < names.size() ? ", " : " or ", names[i]);
  return out;
}

template <class T>
void at_least(const char* what, T value, T least, const char* unit = "") {
  if (value < least) throw UsageError(text(what, ' ', value, unit, ": expected at least ", least, unit));
}

void check_set(std::size_t number, const std::vector<int>& members, int ranks) {
  if (members.empty()) throw UsageError(text("process set ", number, " has no members"));
  std::vector<int> sorted = members;
  std::ranges::sort(sorted);
  if (sorted.front() < 0 || sorted.back() >= ranks) {
    throw UsageError(text("process set ", number, " has rank ", sorted.front() < 0 ? sorted.front() : sorted.back(),
                          "; expected 0 to ", ranks - 1));
  }
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) throw UsageError(text("process set ", number, " has rank ", *twice, " twice"));
}

}  // namespace

OrderingOptions OrderingOptions::named(const std::string& name) {
  OrderingOptions options;
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('+', at), name.size());
    parts.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  for (const std::string& part : parts) {
    const auto fix = std::ranges::find(cycle_fixes(), part, &CycleFix::name);
    if (fix != cycle_fixes().end()) {
      options.fix = *fix;
    } else if (part == "scp") {
      options.own_cores = true;
    } else if (part == "none" || part == "topo") {
      options.kind = part == "none" ? Kind::none : Kind::topo;
    } else if (part != "coordinator") {
      throw UsageError(text("ordering \"", name, "\": ", expected()));
    }
  }
  if (options.name() != name && options.name() != parts.back() + "+" + parts.front()) {
    throw UsageError(
        text("ordering \"", name, "\" is made of parts that exclude each other, or says one twice: ", expected()));
  }
  options.check(1);
  return options;
}

std::string OrderingOptions::name() const {
  if (kind == Kind::none) return "none";
  if (kind == Kind::topo) return "topo";
  std::string out(fix != nullptr ? fix->name : "");
  if (own_cores) out += out.empty() ? "scp" : "+scp";
  return out.empty() ? "coordinator" : out;
}

void OrderingOptions::check(int ranks) const {
  if (kind != Kind::coordinator && (fix != nullptr || own_cores)) {
    throw UsageError(text("ordering ", name(), " has no cycles: ", fix != nullptr ? fix->name : "scp",
                          " is a way of the coordinator"));
  }
  at_least<std::int64_t>("cycle time", cycle_time.count(), 1, " ns");
  at_least("fusion bytes", fusion_bytes, kWidestElement);
  at_least("gs every", gs_every, 1);
  at_least("cache capacity", cache_capacity, 0);
  at_least("in flight", in_flight, 1);
  at_least<std::int64_t>("plan patience", plan_patience.count(), 1, " ns");
  at_least<std::int64_t>("stall warning", stall_warning.count(), 1, " ns");
  at_least<std::int64_t>("stall abort", stall_abort.count(), 0, " ns");
  for (std::size_t i = 0; i < sets.size(); ++i) check_set(i + 1, sets[i], ranks);
}

}  // namespace stretto
