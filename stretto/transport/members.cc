#include "stretto/transport/members.h"

#include <map>

namespace stretto {

Members::Members(const std::vector<int>& host_of) {
  std::map<int, int> numbers;
  for (const int name : host_of) {
    const int host = numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second;
    if (host == hosts()) on_.emplace_back();
    std::vector<int>& on = on_[static_cast<std::size_t>(host)];
    place_of_.push_back(static_cast<int>(on.size()));
    on.push_back(size());
    host_of_.push_back(host);
  }
}

}  // namespace stretto
