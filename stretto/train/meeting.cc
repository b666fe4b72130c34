#include "stretto/train/meeting.h"

#include <algorithm>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/train/flat_math.h"

namespace stretto {
namespace {

// Long enough for a rank that is still starting while others wait; a lost one is noticed at once.
constexpr Duration kPatience = std::chrono::minutes(5);

std::uint64_t bytes_of(const std::vector<std::span<std::byte>>& pieces) {
  std::uint64_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  return bytes;
}

std::uint64_t words_of(std::uint64_t bytes) {
  return (bytes + sizeof(std::int32_t) - 1) / sizeof(std::int32_t);
}

}  // namespace

Meeting::Average::Average(Engine& engine, DataType type, std::uint64_t count)
    : type(type), count(count), sum(engine, type, count, ReduceOp::sum) {}

Meeting::Meeting(Engine& engine, Replica& replica)
    : replica_(replica),
      ranks_(engine.size()),
      weight_bytes_(bytes_of(replica.weights())),
      numbers_(engine, DataType::int64, kNumbers),
      weights_(engine, DataType::int32, words_of(weight_bytes_)),
      parameters_(make_averages(engine, parameters())),
      buffers_(make_averages(engine, replica.floating_buffers())) {}

std::vector<std::unique_ptr<Meeting::Average>> Meeting::make_averages(Engine& engine,
                                                                      const std::vector<Replica::Buffer>& arrays) {
  std::vector<std::unique_ptr<Average>> averages;
  for (const DataType type : {DataType::float32, DataType::float64}) {
    std::uint64_t count = 0;
    for (const auto& array : arrays) count += array.type == type ? array.memory.size() / size_of(type) : 0;
    if (count > 0) averages.push_back(std::make_unique<Average>(engine, type, count));
  }
  return averages;
}

std::vector<Replica::Buffer> Meeting::parameters() {
  std::vector<Replica::Buffer> arrays;
  for (std::size_t b = 0; b < replica_.buckets().size(); ++b) {
    arrays.push_back({replica_.buckets()[b].type, replica_.parameters(static_cast<int>(b))});
  }
  return arrays;
}

void Meeting::broadcast_weights(EngineDriver& driver) {
  std::vector<std::int32_t> words(words_of(weight_bytes_));
  const auto pieces = replica_.weights();
  auto* at = reinterpret_cast<std::byte*>(words.data());
  for (const auto& piece : pieces) at = std::copy(piece.begin(), piece.end(), at);
  weights_.run(driver, driver.deadline(kPatience), words).or_throw();
  const auto* from = reinterpret_cast<const std::byte*>(words.data());
  for (const auto& piece : pieces) {
    std::copy(from, from + piece.size(), piece.begin());
    from += piece.size();
  }
}

void Meeting::average_parameters(EngineDriver& driver) {
  average(driver, parameters_, parameters());
}

void Meeting::average_buffers(EngineDriver& driver) {
  average(driver, buffers_, replica_.floating_buffers());
}

void Meeting::average(EngineDriver& driver, std::vector<std::unique_ptr<Average>>& averages,
                      const std::vector<Replica::Buffer>& arrays) {
  const auto average_as = [&]<class T>(Average& average, T) {
    std::vector<T> mine, sum(average.count);
    for (const auto& array : arrays) {
      if (array.type != average.type) continue;
      const auto* numbers = reinterpret_cast<const T*>(array.memory.data());
      mine.insert(mine.end(), numbers, numbers + array.memory.size() / sizeof(T));
    }
    average.sum.run(driver, driver.deadline(kPatience), mine, sum).or_throw();
    const T* next = sum.data();
    for (const auto& array : arrays) {
      if (array.type != average.type) continue;
      const std::size_t count = array.memory.size() / sizeof(T);
      divide(average.type, array.memory, std::as_bytes(std::span(next, count)), ranks_);
      next += count;
    }
  };
  for (auto& average : averages) {
    average->type == DataType::float32 ? average_as(*average, float{}) : average_as(*average, double{});
  }
}

std::vector<Meeting::Numbers> Meeting::gather(EngineDriver& driver, const Numbers& mine) {
  std::array<std::int64_t, kNumbers> in;
  std::copy(mine.begin(), mine.end(), in.begin());
  std::vector<std::int64_t> out(kNumbers * static_cast<std::size_t>(ranks_));
  numbers_.run(driver, driver.deadline(kPatience), in, out).or_throw();
  std::vector<Numbers> all(static_cast<std::size_t>(ranks_));
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t i = 0; i < kNumbers; ++i) all[r][i] = static_cast<std::uint64_t>(out[r * kNumbers + i]);
  }
  return all;
}

std::vector<std::vector<std::uint64_t>> Meeting::gather_lists(EngineDriver& driver,
                                                              std::span<const std::uint64_t> mine) {
  std::vector<std::vector<std::uint64_t>> lists(static_cast<std::size_t>(ranks_));
  std::uint64_t longest = 0;
  const auto lengths = gather(driver, {mine.size()});
  for (const Numbers& length : lengths) longest = std::max(longest, length[0]);
  for (std::uint64_t done = 0; done < longest; done += kNumbers) {
    Numbers piece{};
    const std::uint64_t end = std::min<std::uint64_t>(mine.size(), done + kNumbers);
    for (std::uint64_t i = done; i < end; ++i) piece[i - done] = mine[i];
    const auto pieces = gather(driver, piece);
    for (std::size_t r = 0; r < lists.size(); ++r) {
      const std::uint64_t count = lengths[r][0] > done ? std::min<std::uint64_t>(kNumbers, lengths[r][0] - done) : 0;
      lists[r].insert(lists[r].end(), pieces[r].begin(), pieces[r].begin() + static_cast<std::ptrdiff_t>(count));
    }
  }
  return lists;
}

}  // namespace stretto
