#include "stretto/train/simulated/churn.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "stretto/base/error.h"
#include "stretto/base/random.h"

namespace stretto {
namespace {

constexpr std::uint64_t kLifeStream = 0x6c696665;

template <class Number>
std::optional<Number> whole_number(std::string_view written) {
  Number number{};
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), number);
  if (error != std::errc() || end != written.data() + written.size()) return std::nullopt;
  return number;
}

/// "3@20s" of a job of so many places.
std::optional<Churn::Planned> planned(std::string_view written, int places, bool leaves) {
  const std::size_t at = written.find('@');
  if (at == std::string_view::npos) return std::nullopt;
  const auto place = whole_number<int>(written.substr(0, at));
  const auto time = parse_duration(written.substr(at + 1));
  if (!place || *place < 0 || *place >= places || !time) return std::nullopt;
  return Churn::Planned{*place, *time, leaves};
}

[[noreturn]] void refuse(std::string_view written, std::string_view part, int places) {
  throw UsageError(text("churn ", written, ": '", part,
                        "': expected life=TIME above 0, notice=SHARE from 0 to 1, back=TIME or never, detect=TIME, "
                        "loss=PLACE@TIME or leave=PLACE@TIME with a place from 0 to ",
                        places - 1, ", and one of life, loss and leave, as in life=2h,notice=0.5"));
}

}  // namespace

Churn::End Churn::end_of(std::uint64_t seed, std::uint64_t number) const {
  if (life <= Duration::zero()) return {};
  Random random(seed, kLifeStream + number);
  const double lives = -std::log1p(-random.uniform());
  return {.after = from_seconds(seconds(life) * lives), .leaves = random.chance(notice)};
}

Churn parse_churn(const std::string& written, int places) {
  Churn churn;
  std::string_view left = written;
  while (!left.empty()) {
    const std::string_view part = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), part.size() + 1));
    if (left.empty() && written.ends_with(',')) refuse(written, ",", places);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) refuse(written, part, places);
    const std::string_view name = part.substr(0, equals), value = part.substr(equals + 1);
    const auto time = parse_duration(value);
    bool fits = true;
    if (name == "life") {
      fits = time && *time > Duration::zero();
      if (fits) churn.life = *time;
    } else if (name == "notice") {
      const auto share = whole_number<double>(value);
      fits = share && *share >= 0 && *share <= 1;
      if (fits) churn.notice = *share;
    } else if (name == "back") {
      fits = time || value == "never";
      churn.back = time;
    } else if (name == "detect") {
      fits = time.has_value();
      if (fits) churn.detect = *time;
    } else if (name == "loss" || name == "leave") {
      const auto one = planned(value, places, name == "leave");
      fits = one.has_value();
      if (fits) churn.planned.push_back(*one);
    } else {
      fits = false;
    }
    if (!fits) refuse(written, part, places);
  }
  if (churn.life <= Duration::zero() && churn.planned.empty()) refuse(written, "", places);
  return churn;
}

std::string to_text(const Churn& churn) {
  std::string words;
  if (churn.life > Duration::zero()) words = text("life=", to_text(churn.life), ",notice=", churn.notice, ',');
  words += text("back=", churn.back ? to_text(*churn.back) : "never", ",detect=", to_text(churn.detect));
  for (const Churn::Planned& one : churn.planned) {
    words += text(one.leaves ? ",leave=" : ",loss=", one.place, '@', to_text(one.at));
  }
  return words;
}

}  // namespace stretto
