#include "stretto/ordering/negotiation/response_cache.h"

#include <algorithm>

namespace stretto {

std::optional<std::size_t> ResponseCache::find(std::uint32_t name) const {
  return name < position_of_name_.size() ? position_of_name_[name] : std::nullopt;
}

void ResponseCache::use(std::size_t position) {
  entries_[position].used = ++uses_;
}

std::optional<TensorId> ResponseCache::enter(TensorId tensor, std::uint32_t name) {
  std::optional<TensorId> evicted;
  auto place = std::ranges::find_if(entries_, [](const Entry& entry) { return !entry.tensor; });
  if (place == entries_.end() && entries_.size() < capacity_) {
    place = entries_.insert(entries_.end(), Entry{});
  } else if (place == entries_.end()) {
    place = std::ranges::min_element(entries_, {}, &Entry::used);
    evicted = place->tensor;
    evict(static_cast<std::size_t>(place - entries_.begin()));
  }
  *place = {tensor, name, ++uses_};
  if (position_of_name_.size() <= name) position_of_name_.resize(name + std::size_t{1});
  position_of_name_[name] = static_cast<std::size_t>(place - entries_.begin());
  return evicted;
}

void ResponseCache::evict(std::size_t position) {
  position_of_name_[entries_[position].name].reset();
  entries_[position] = {};
}

}  // namespace stretto
