#include "stretto/membership/views/member_place.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>

#include "stretto/transport/job_memory.h"

namespace stretto {
namespace {

/// The number that a text is, from `least` to `most`.
template <class Number>
bool is_number(std::string_view text, Number least, Number most, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= least && number <= most;
}

}  // namespace

std::string MemberPlace::encoded() const {
  return text(host, ':', port, '/', number, '/', place, '/', most, '/', patience.count(), '/', digits_of(token),
              etcd.empty() ? "" : "/", etcd);
}

Result<MemberPlace> MemberPlace::decoded(std::string_view words) {
  std::array<std::string_view, 6> parts;
  std::string_view rest = words;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t end = std::min(rest.find(i + 1 < parts.size() ? "/" : "/etcd://"), rest.size());
    parts[i] = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  MemberPlace place;
  place.etcd = rest;
  const std::size_t colon = parts[0].rfind(':');
  place.host = parts[0].substr(0, std::min(colon, parts[0].size()));
  parts[0].remove_prefix(place.host.size() + (colon == std::string_view::npos ? 0 : 1));
  const auto token = token_of(std::string(parts[5]));
  std::int64_t patience = 0;
  if (!token || place.host.empty() || !is_number<std::uint16_t>(parts[0], 1, 65535, place.port) ||
      !is_number<MemberNumber>(parts[1], 0, std::uint64_t{1} << 62, place.number) ||
      !is_number<int>(parts[3], 1, JobMemory::kMaxRanks, place.most) ||
      !is_number<int>(parts[2], 0, place.most - 1, place.place) ||
      !is_number<std::int64_t>(parts[4], 0, std::numeric_limits<int>::max(), patience)) {
    return Error{Errc::bad_input, "expected host:port/number/place/most/patience/token, as stretto run sets it"};
  }
  place.patience = std::chrono::milliseconds(patience);
  place.token = *token;
  return place;
}

std::optional<MemberPlace> member_place() {
  const char* const words = std::getenv(MemberPlace::kVariable);
  if (words == nullptr || *words == '\0') return std::nullopt;
  const auto place = MemberPlace::decoded(words);
  if (!place) throw UsageError(text(MemberPlace::kVariable, "='", words, "': ", place.error().message));
  return *place;
}

}  // namespace stretto
