#include "stretto/train/replica/meeting.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

using Pieces = std::vector<std::span<std::byte>>;  // of a replica's weights, one behind the other elsewhere

std::uint64_t bytes_of(const Pieces& pieces) {
  std::uint64_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  return bytes;
}

void copy_from(const Pieces& pieces, std::byte* to) {
  for (const auto& piece : pieces) to = std::ranges::copy(piece, to).out;
}

void copy_to(const Pieces& pieces, const std::byte* from) {
  for (const auto& piece : pieces) from = std::ranges::copy_n(from, std::ssize(piece), piece.begin()).in;
}

constexpr DataType kWideTypes[] = {DataType::float32, DataType::float64};

std::uint64_t count_of(const Replica::Buffer& array) {
  return array.memory.size() / size_of(array.type);
}

/// Of those that are averaged as `type`.
std::uint64_t count_of(const std::vector<Replica::Buffer>& arrays, DataType type) {
  std::uint64_t count = 0;
  for (const auto& array : arrays) count += wide_type(array.type) == type ? count_of(array) : 0;
  return count;
}

/// A copy of its numbers, as wide_type().
std::vector<std::byte> widened(const Replica::Buffer& array) {
  std::vector<std::byte> wide(count_of(array) * size_of(wide_type(array.type)));
  widen(array.type, wide, array.memory);
  return wide;
}

std::uint64_t words_of(std::uint64_t bytes) {
  return (bytes + sizeof(std::int32_t) - 1) / sizeof(std::int32_t);
}

constexpr Duration kAnswersWithin = std::chrono::milliseconds(200);
constexpr std::size_t kPiece = 48;  // numbers of a list at a time

}  // namespace

class Meeting::Call {
 public:
  explicit Call(Meeting& meeting) : meeting_(meeting) {
    if (meeting.interrupted_) throw UsageError("an exchange among all ranks after a failure: expected no more of them");
    meeting_.interrupted_ = true;
  }
  void returns() { meeting_.interrupted_ = false; }

 private:
  Meeting& meeting_;
};

Meeting::Average::Average(Engine& engine, DataType type, std::uint64_t count)
    : type(type), count(count), sum(engine, type, count, ReduceOp::sum) {}

void Meeting::insist(Driver& driver, Collective& collective, const std::function<Result<void>(TimePoint)>& run) {
  const TimePoint give_up = driver.deadline(options_.timeout);
  TimePoint tell_at = driver.deadline(options_.silence);
  for (;;) {
    const Result<void> done = run(std::min({give_up, tell_at, driver.deadline(options_.look_every)}));
    if (done) return;
    const TimePoint now = driver.clock().now();
    if (done.error().code != Errc::timeout) throw Failure(done.error());
    if (const auto stopped = numbers_.failure()) throw Failure(*stopped);
    if (now < std::min(give_up, tell_at)) continue;
    const std::string missing = collective.who_is_missing(driver, kAnswersWithin);
    if (now >= give_up) {
      throw Failure({Errc::timeout, text(missing, ", after ", seconds(options_.timeout), " s"), -1});
    }
    tell_at = now + options_.silence;
    if (options_.tell) options_.tell(missing);
  }
}

void Meeting::abort(Driver& driver, const Error& why) {
  numbers_.abort(driver, why);
  if (lists_ != nullptr) lists_->numbers.abort(driver, why);
  if (broadcast_) broadcast_->abort(driver, why);
  if (given_ != nullptr) given_->collective().abort(driver, why);
  for (const auto* averages : {&parameters_, &buffers_, &spread_, &optimizer_}) {
    for (const auto& average : *averages) average->sum.abort(driver, why);
  }
}

void Meeting::run(Driver& driver, Average& average) {
  const auto as = [&]<class T>(T) {
    const std::span mine(reinterpret_cast<const T*>(average.mine.data()), average.count);
    const std::span total(reinterpret_cast<T*>(average.total.data()), average.count);
    insist(driver, average.sum, [&](TimePoint deadline) { return average.sum.run(driver, deadline, mine, total); });
  };
  average.type == DataType::float32 ? as(float{}) : as(double{});
}

Meeting::Meeting(Engine& engine, Replica& replica, MeetingOptions options)
    : engine_(engine),
      replica_(replica),
      local_(replica.local_buffers()),
      options_(std::move(options)),
      ranks_(engine.size()),
      mine_(kNumbers),
      all_(kNumbers * static_cast<std::size_t>(ranks_)),
      numbers_(engine, DataType::int64, kNumbers) {
  if (local_ == nullptr) return;
  buffers_ = make_averages(engine, local_->floating_buffers());
  spread_ = make_averages(engine, means());
}

std::vector<std::unique_ptr<Meeting::Average>> Meeting::make_averages(Engine& engine,
                                                                      const std::vector<Replica::Buffer>& arrays) {
  std::vector<std::unique_ptr<Average>> averages;
  for (const DataType type : kWideTypes) {
    const std::uint64_t count = count_of(arrays, type);
    if (count > 0) averages.push_back(std::make_unique<Average>(engine, type, count));
  }
  return averages;
}

std::vector<Replica::Buffer> Meeting::parameters() {
  std::vector<Replica::Buffer> arrays;
  for (std::size_t b = 0; b < replica_.parameter_buckets().size(); ++b) {
    arrays.push_back({replica_.parameter_buckets()[b].type, replica_.parameters(static_cast<int>(b))});
  }
  return arrays;
}

void Meeting::broadcast_weights(Driver& driver, int from, FunctionRef<bool()> takes) {
  Call call(*this);
  const Pieces pieces = replica_.weights();
  words_.resize(words_of(bytes_of(pieces)));
  copy_from(pieces, reinterpret_cast<std::byte*>(words_.data()));
  broadcast_words(driver, from);
  if (takes()) copy_to(pieces, reinterpret_cast<const std::byte*>(words_.data()));
  words_ = std::vector<std::int32_t>();
  call.returns();
}

void Meeting::broadcast_words(Driver& driver, int from) {
  broadcast_ = std::make_unique<Broadcast>(engine_, DataType::int32, words_.size(), from);
  insist(driver, *broadcast_, [&](TimePoint deadline) { return broadcast_->run(driver, deadline, words_); });
  broadcast_ = nullptr;
}

void Meeting::broadcast_optimizer(Driver& driver, int from, bool take) {
  const std::string state = broadcast_text(
      driver, [this] { return replica_.optimizer_state(); }, from);
  if (take && engine_.rank() != from) replica_.set_optimizer_state(state);
}

std::string Meeting::broadcast_text(Driver& driver, FunctionRef<std::string()> make, int from) {
  std::string made;
  bool refused = false;
  try {
    if (engine_.rank() == from) made = make();
  } catch (const UsageError& error) {
    made = error.what();
    refused = true;
  }
  const Numbers first = gather(driver, {made.size(), refused ? 1u : 0u})[static_cast<std::size_t>(from)];
  made.resize(first[0]);
  if (!made.empty()) {
    Call call(*this);
    words_.resize(words_of(made.size()));
    std::ranges::copy(made, reinterpret_cast<char*>(words_.data()));
    broadcast_words(driver, from);
    std::copy_n(reinterpret_cast<const char*>(words_.data()), made.size(), made.begin());
    words_ = std::vector<std::int32_t>();
    call.returns();
  }
  if (first[1] != 0) throw UsageError(made);
  return made;
}

std::string Meeting::weights() const {
  const Pieces pieces = replica_.weights();
  std::string text(bytes_of(pieces), '\0');
  copy_from(pieces, reinterpret_cast<std::byte*>(text.data()));
  return text;
}

void Meeting::set_weights(std::string_view text) {
  const Pieces pieces = replica_.weights();
  STRETTO_CHECK(text.size() == bytes_of(pieces), "weights of another model: ", text.size(), " bytes");
  copy_to(pieces, reinterpret_cast<const std::byte*>(text.data()));
}

void Meeting::begin_giving(Driver& driver, FunctionRef<std::vector<std::string>()> make, int from,
                           const std::vector<int>& to) {
  const bool gives = engine_.rank() == from;
  std::vector<std::string> texts;
  std::string refused;
  try {
    if (gives) texts = make();
  } catch (const UsageError& error) {
    refused = error.what();
  }
  STRETTO_CHECK(texts.size() + 2 <= kNumbers, texts.size(), " texts");
  Numbers lengths{refused.size(), texts.size()};
  std::ranges::transform(texts, lengths.begin() + 2, &std::string::size);
  lengths = gather(driver, lengths)[static_cast<std::size_t>(from)];
  if (lengths[0] > 0)
    throw UsageError(broadcast_text(
        driver, [&] { return refused; }, from));

  std::vector<int> members{from};
  members.insert(members.end(), to.begin(), to.end());
  const auto of_texts = lengths.begin() + 2;
  given_ = std::make_unique<GivenTexts>(
      engine_, std::vector<std::uint64_t>(of_texts, of_texts + static_cast<std::ptrdiff_t>(lengths[1])), members);
  if (gives) given_->give(std::move(texts));
}

std::vector<std::string> Meeting::take_given(Driver& driver) {
  Call call(*this);
  insist(driver, given_->collective(), [&](TimePoint deadline) { return given_->run(driver, deadline); });
  call.returns();
  std::vector<std::string> texts = given_->texts();
  forget_given();
  return texts;
}

void Meeting::forget_given() {
  if (given_ != nullptr) given_->forget();
}

int Meeting::weight() const {
  return weigh_.empty() ? ranks_ : static_cast<int>(std::ranges::count(weigh_, true));
}

void Meeting::average_parameters(Driver& driver) {
  if (parameters_.empty()) parameters_ = make_averages(engine_, parameters());
  average(driver, parameters_, parameters(), weight());
}

void Meeting::average_optimizer(Driver& driver) {
  const std::vector<Replica::Buffer> arrays = replica_.optimizer_arrays();
  Numbers mine{};
  for (const auto& array : arrays) mine[wide_type(array.type) == DataType::float32 ? 0 : 1] += count_of(array);
  const auto all = gather(driver, mine);
  const Numbers most = *std::ranges::max_element(all);
  int have = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) have += weighs(rank) && all[rank] == most ? 1 : 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == most || all[rank] == Numbers{}) continue;
    throw UsageError(text("rank ", rank, " has ", all[rank][0] + all[rank][1],
                          " numbers in the optimizer's state where another has ", most[0] + most[1],
                          ": expected the same on all, to average it"));
  }
  if (most == Numbers{} || have == 0) return;
  if (optimizer_.empty()) {
    for (const DataType type : kWideTypes) {
      const std::uint64_t count = most[type == DataType::float32 ? 0 : 1];
      if (count > 0) optimizer_.push_back(std::make_unique<Average>(engine_, type, count));
    }
  }
  average(driver, optimizer_, arrays, have);
}

void Meeting::agree_on_buffers(Driver& driver) {
  const std::optional<std::string> mine = local_->describe_buffers();
  if (!mine) return;
  const bool differ = differing_rank(driver, {Hash64::of(*mine)}).has_value();
  local_->share_buffers(differ ? gather_texts(driver, *mine) : std::vector<std::string>());
  const auto fit = [](const std::vector<std::unique_ptr<Average>>& averages,
                      const std::vector<Replica::Buffer>& arrays) {
    for (const DataType type : kWideTypes) {
      std::uint64_t count = 0;
      for (const auto& average : averages) count += average->type == type ? average->count : 0;
      if (count != count_of(arrays, type)) return false;
    }
    return true;
  };
  if (!fit(buffers_, local_->floating_buffers())) buffers_ = make_averages(engine_, local_->floating_buffers());
  if (!fit(spread_, means())) spread_ = make_averages(engine_, means());
}

void Meeting::average_buffers(Driver& driver) {
  if (local_ == nullptr) return;
  agree_on_buffers(driver);
  std::vector<std::vector<std::byte>> before;
  for (const auto& mean : means()) before.push_back(widened(mean));
  average(driver, buffers_, local_->floating_buffers(), weight());
  if (!before.empty()) add_spread(driver, std::move(before));
  if (!local_->counts().empty()) take_largest_counts(driver);
}

std::vector<Replica::Buffer> Meeting::means() const {
  std::vector<Replica::Buffer> means;
  for (const auto& [mean, variance] : local_->moments()) means.push_back(local_->floating_buffers()[mean]);
  return means;
}

void Meeting::add_spread(Driver& driver, std::vector<std::vector<std::byte>> before) {
  const auto all = means();
  std::vector<Replica::Buffer> squares;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const DataType type = wide_type(all[i].type);
    subtract(type, before[i], before[i], widened(all[i]));
    const auto square = [&]<class T>(T) {
      for (T& number : std::span(reinterpret_cast<T*>(before[i].data()), count_of(all[i]))) number *= number;
    };
    type == DataType::float32 ? square(float{}) : square(double{});
    squares.push_back({type, before[i]});
  }
  average(driver, spread_, squares, weight());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Replica::Buffer variance = local_->floating_buffers()[local_->moments()[i].second];
    std::vector<std::byte> sum = widened(variance);
    add_scaled(wide_type(variance.type), sum, before[i], 1);
    narrow(variance.type, variance.memory, sum);
  }
}

void Meeting::take_largest_counts(Driver& driver) {
  std::vector<std::uint64_t> mine;
  for (const auto& counts : local_->counts()) mine.insert(mine.end(), counts.begin(), counts.end());
  const auto all = gather_lists(driver, mine);
  std::size_t next = 0;
  for (const auto& counts : local_->counts()) {
    for (std::int64_t& count : counts) {
      for (const auto& theirs : all) count = std::max(count, static_cast<std::int64_t>(theirs[next]));
      ++next;
    }
  }
}

void Meeting::average(Driver& driver, std::vector<std::unique_ptr<Average>>& averages,
                      const std::vector<Replica::Buffer>& arrays, int divisor) {
  Call call(*this);
  for (auto& average : averages) {
    average->mine.assign(average->count * size_of(average->type), std::byte{0});
    average->total.resize(average->mine.size());
    const auto for_each_array = [&](std::vector<std::byte>& in, auto visit) {
      std::span<std::byte> rest = in;
      for (const auto& array : arrays) {
        if (wide_type(array.type) != average->type) continue;
        const std::size_t bytes = count_of(array) * size_of(average->type);
        visit(array, rest.first(bytes));
        rest = rest.subspan(bytes);
      }
    };
    for_each_array(average->mine, [&](const Replica::Buffer& array, std::span<std::byte> wide) {
      if (weighs(static_cast<std::size_t>(engine_.rank()))) widen(array.type, wide, array.memory);
    });
    run(driver, *average);
    divide(average->type, average->total, average->total, divisor);
    for_each_array(average->total, [](const Replica::Buffer& array, std::span<std::byte> wide) {
      narrow(array.type, array.memory, wide);
    });
    average->mine = std::vector<std::byte>();
    average->total = std::vector<std::byte>();
  }
  call.returns();
}

std::vector<Meeting::Numbers> Meeting::gather(Driver& driver, const Numbers& mine) {
  Call call(*this);
  std::copy(mine.begin(), mine.end(), mine_.begin());
  insist(driver, numbers_, [&](TimePoint deadline) { return numbers_.run(driver, deadline, mine_, all_); });
  std::vector<Numbers> all(static_cast<std::size_t>(ranks_));
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t i = 0; i < kNumbers; ++i) all[r][i] = static_cast<std::uint64_t>(all_[r * kNumbers + i]);
  }
  call.returns();
  return all;
}

std::optional<int> Meeting::differing_rank(Driver& driver, const Numbers& mine) {
  const auto all = gather(driver, mine);
  const auto other = std::find_if(all.begin(), all.end(), [&](const Numbers& one) { return one != all[0]; });
  if (other == all.end()) return {};
  return static_cast<int>(other - all.begin());
}

Meeting::Lists::Lists(Engine& engine)
    : mine(kPiece), all(kPiece * static_cast<std::size_t>(engine.size())), numbers(engine, DataType::int64, kPiece) {}

std::vector<std::vector<std::uint64_t>> Meeting::gather_lists(Driver& driver, std::span<const std::uint64_t> mine) {
  std::vector<std::vector<std::uint64_t>> lists(static_cast<std::size_t>(ranks_));
  std::uint64_t longest = 0;
  const auto lengths = gather(driver, {mine.size()});
  for (const Numbers& length : lengths) longest = std::max(longest, length[0]);
  if (longest > 0 && lists_ == nullptr) lists_ = std::make_unique<Lists>(engine_);
  Call call(*this);
  for (std::uint64_t done = 0; done < longest; done += kPiece) {
    const std::uint64_t end = std::min<std::uint64_t>(mine.size(), done + kPiece);
    for (std::uint64_t i = done; i < end; ++i) lists_->mine[i - done] = static_cast<std::int64_t>(mine[i]);
    insist(driver, lists_->numbers,
           [&](TimePoint deadline) { return lists_->numbers.run(driver, deadline, lists_->mine, lists_->all); });
    for (std::size_t r = 0; r < lists.size(); ++r) {
      const std::uint64_t count = lengths[r][0] > done ? std::min<std::uint64_t>(kPiece, lengths[r][0] - done) : 0;
      const auto piece = std::span(lists_->all).subspan(r * kPiece, count);
      for (const std::int64_t number : piece) lists[r].push_back(static_cast<std::uint64_t>(number));
    }
  }
  call.returns();
  return lists;
}

std::vector<std::string> Meeting::gather_texts(Driver& driver, const std::string& mine) {
  std::vector<std::uint64_t> words{mine.size()};
  words.resize(1 + (mine.size() + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  std::memcpy(words.data() + 1, mine.data(), mine.size());
  std::vector<std::string> texts;
  for (const auto& list : gather_lists(driver, words)) {
    texts.emplace_back(reinterpret_cast<const char*>(list.data() + 1), list[0]);
  }
  return texts;
}

}  // namespace stretto
