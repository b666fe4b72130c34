#include "stretto/train/replica/given_texts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/collective/schedules/plain_schedules.h"

namespace stretto {
namespace {

constexpr std::uint64_t kWordsOfPiece = std::uint64_t{1} << 18;  // 1 MiB
constexpr std::uint64_t kMostPieces = 10'000;

std::uint64_t num_words(const std::vector<std::uint64_t>& lengths) {
  const std::uint64_t bytes = std::reduce(lengths.begin(), lengths.end());
  return (bytes + sizeof(std::int32_t) - 1) / sizeof(std::int32_t);
}

Schedule schedule_among(std::vector<int> members, const Engine& engine, std::uint64_t count) {
  auto place = std::ranges::find(members, engine.rank()) - members.begin();
  if (place == std::ssize(members)) {
    members = {engine.rank()};
    place = 0;
  }
  return broadcast_schedule(static_cast<int>(place), static_cast<int>(members.size()), 0, DataType::int32, count,
                            std::max(kWordsOfPiece, count / kMostPieces))
      .among(members, engine.size());
}

}  // namespace

GivenTexts::GivenTexts(Engine& engine, std::vector<std::uint64_t> lengths, std::vector<int> members)
    : lengths_(std::move(lengths)),
      words_(std::ranges::count(members, engine.rank()) > 0 ? num_words(lengths_) : 0),
      collective_(engine, schedule_among(std::move(members), engine, num_words(lengths_)),
                  text(num_words(lengths_), " words")) {}

void GivenTexts::give(std::vector<std::string> texts) {
  auto* at = reinterpret_cast<char*>(words_.data());
  for (std::string& text : texts) at = std::ranges::copy(std::exchange(text, {}), at).out;
  collective_.start({Argument::in(words_)});
}

void GivenTexts::expect() {
  collective_.start({Argument::out(words_)});
}

Result<void> GivenTexts::run(Driver& driver, TimePoint deadline) {
  return collective_.run(driver, deadline, {Argument::out(words_)});
}

std::vector<std::string> GivenTexts::texts() const {
  std::vector<std::string> texts;
  const auto* at = reinterpret_cast<const char*>(words_.data());
  for (const std::uint64_t length : lengths_) {
    texts.emplace_back(at, length);
    at += length;
  }
  return texts;
}

void GivenTexts::forget() {
  const Result<bool> is_over = finished();
  if (is_over && *is_over) words_ = {};
}

}  // namespace stretto
