#include "stretto/transport/members.h"

#include <map>
#include <utility>

namespace stretto {

Members::Members(const std::vector<int>& host_of, std::vector<std::string> names) {
  std::map<int, int> numbers;
  for (const int name : host_of) {
    const int host = numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second;
    if (host == hosts()) on_.emplace_back();
    std::vector<int>& on = on_[static_cast<std::size_t>(host)];
    place_of_.push_back(static_cast<int>(on.size()));
    on.push_back(size());
    host_of_.push_back(host);
  }
  if (hosts() > 1) names_ = std::move(names);
}

}  // namespace stretto
