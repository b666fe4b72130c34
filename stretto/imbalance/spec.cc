#include "stretto/imbalance/spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/imbalance/trace_file.h"

namespace stretto {
namespace {

constexpr std::uint64_t kImbalanceStream = 0x696d62616c616e63;

/// The papers' measured step times. μ and σ are such that after the cut mean and standard deviation are the printed
/// ones: ucf101 1,235 and 706 ms, wmt16 475 and 144 ms, cloud 454 and 116 ms. Of Habitat only the ends and a
/// median below 2 s are known: μ is that of a median of 1.9 s, σ that of a largest of 5,000 draws at its upper end.
const MeasuredDelay kPresets[] = {
    {.name = "ucf101", .mu = 0.06014386, .sigma = 0.57726884, .low = 0.201, .high = 3.410},
    {.name = "wmt16", .mu = -0.78843651, .sigma = 0.29667753, .low = 0.179, .high = 3.482},
    {.name = "cloud", .mu = -1.07416853, .sigma = 0.43275755, .low = 0.399, .high = 1.892},
    {.name = "habitat", .mu = 0.64185389, .sigma = 0.8844, .low = 1.7, .high = 43.5},
};

/// One source as it is written: a name, and after a colon its parameters.
class Reader {
 public:
  /// `whole` is the sum that `written` is part of.
  Reader(std::string written, const std::string& whole, int ranks)
      : written_(std::move(written)), whole_(whole), ranks_(ranks) {
    const auto colon = written_.find(':');
    name_ = written_.substr(0, colon);
    if (colon != std::string::npos) rest_ = written_.substr(colon + 1);
  }

  /// Nothing for "none".
  std::optional<ImbalanceSource> read() {
    if (name_ == "none") {
      fields({}, "none");
      return std::nullopt;
    }
    if (name_ == "random") return random();
    if (name_ == "rotate") return range<Rotation>("rotate:50ms..400ms");
    if (name_ == "linear") return range<LinearSkew>("linear:1ms..32ms");
    if (name_ == "persistent") return persistent();
    if (name_ == "lognormal") return log_normal();
    if (name_ == "trace") return trace();
    for (const auto& preset : kPresets) {
      if (name_ == preset.name) return measured(preset);
    }
    refuse("expected none, random, rotate, linear, persistent, lognormal, trace, ucf101, wmt16, cloud or habitat",
           "random:ranks=1,delay=200ms");
  }

 private:
  [[noreturn]] void refuse(const std::string& problem, const std::string& example) const {
    const std::string part = written_ == whole_ ? "" : text(" at '", written_, "'");
    throw UsageError(text("imbalance '", whole_, "'", part, ": ", problem, "; '", example, "' would work"));
  }

  /// The parts `key=value` of the rest, none of them twice.
  void fields(std::initializer_list<const char*> keys, const std::string& example) {
    std::string expected;
    for (const char* key : keys) expected += text(expected.empty() ? "" : ", ", key, "=");
    for (std::string_view rest = rest_; !rest.empty();) {
      const auto comma = rest.find(',');
      const std::string_view part = rest.substr(0, comma);
      rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
      const auto equals = part.find('=');
      const std::string key(part.substr(0, equals));
      bool known = false;
      for (const char* k : keys) known = known || key == k;
      if (!known || equals == std::string_view::npos) {
        refuse(expected.empty() ? text("nothing may follow, but found '", part, "'")
                                : text("expected ", expected, " but found '", part, "'"),
               example);
      }
      if (!fields_.emplace(key, part.substr(equals + 1)).second) refuse(text(key, "= stands there twice"), example);
    }
  }

  bool has(const char* key) const { return fields_.contains(key); }

  const std::string& field(const char* key, const std::string& example) const {
    const auto found = fields_.find(key);
    if (found == fields_.end()) refuse(text(key, "= is missing"), example);
    return found->second;
  }

  Duration duration(const std::string& what, const std::string& value, const std::string& example) const {
    const auto duration = parse_duration(value);
    if (!duration)
      refuse(text(what, " '", value, "' is no length of time (a number and ns, us, ms, s, min or h)"), example);
    return *duration;
  }

  int integer(const char* key, int low, int high, const std::string& example) const {
    const std::string& value = field(key, example);
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size() || number < low || number > high) {
      refuse(text(key, "=", value, " is not one of ", low, " … ", high), example);
    }
    return number;
  }

  double number(const char* key, double low, double high, const std::string& example) const {
    const std::string& value = field(key, example);
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size() || !(number >= low && number <= high)) {
      refuse(text(key, "=", value, " is no number from ", low, " to ", high), example);
    }
    return number;
  }

  ImbalanceSource random() {
    const std::string example = "random:ranks=1,delay=200ms";
    fields({"ranks", "delay"}, example);
    return RandomRanks{integer("ranks", 1, ranks_, example), duration("delay", field("delay", example), example)};
  }

  template <class Source>
  ImbalanceSource range(const std::string& example) const {
    const auto dots = rest_.find("..");
    if (dots == std::string::npos) refuse("expected LOW..HIGH", example);
    const Duration low = duration("lower end", rest_.substr(0, dots), example);
    const Duration high = duration("upper end", rest_.substr(dots + 2), example);
    if (low > high) refuse("the lower end is above the upper one", example);
    return Source{low, high};
  }

  ImbalanceSource persistent() {
    const std::string example = text("persistent:rank=", ranks_ - 1, ",delay=40ms");
    fields({"rank", "delay", "factor"}, example);
    PersistentRank source{.rank = integer("rank", 0, ranks_ - 1, example)};
    if (!has("delay") && !has("factor")) refuse("expected delay= or factor=", example);
    if (has("delay")) source.delay = duration("delay", field("delay", example), example);
    if (has("factor")) source.factor = number("factor", 0.01, 1e6, text("persistent:rank=", ranks_ - 1, ",factor=3"));
    return source;
  }

  ImbalanceSource log_normal() {
    const std::string example = "lognormal:mean=20ms,cv=0.5";
    fields({"mean", "cv"}, example);
    const LogNormalDelay source{duration("mean", field("mean", example), example), number("cv", 0, 100, example)};
    if (source.mean == Duration::zero()) refuse("mean= must be above 0", example);
    return source;
  }

  ImbalanceSource trace() const {
    const std::string example = "trace:delays.csv";
    RecordedDelays source{.path = rest_};
    const auto comma = rest_.rfind(",scale=");
    if (comma != std::string::npos) {
      Reader scale(text("trace:", rest_.substr(comma + 1)), whole_, ranks_);
      scale.fields({"scale"}, example);
      source.path = rest_.substr(0, comma);
      source.scale = scale.number("scale", 1e-9, 1e9, example + ",scale=0.1");
    }
    if (source.path.empty()) refuse("expected the name of a file of rows step,rank,seconds", example);
    auto delays = read_trace_file(source.path, ranks_);
    if (!delays)
      throw UsageError(text("imbalance '", whole_, "': ", delays.error().message));  // another name is no example
    source.delays = std::make_shared<const std::vector<Duration>>(std::move(*delays));
    return source;
  }

  ImbalanceSource measured(MeasuredDelay preset) {
    const std::string example = text(name_, ":scale=0.1");
    fields({"scale"}, example);
    if (has("scale")) preset.scale = number("scale", 1e-9, 1e9, example);
    return preset;
  }

  std::string written_;
  const std::string& whole_;
  int ranks_;
  std::string name_, rest_;
  std::map<std::string, std::string> fields_;
};

}  // namespace

Imbalance Imbalance::parse(const std::string& written, int ranks) {
  if (ranks < 1) throw UsageError(text("imbalance for ", ranks, " ranks: expected at least 1"));
  Imbalance imbalance;
  imbalance.ranks_ = ranks;
  for (std::size_t start = 0; start <= written.size();) {
    const auto plus = std::min(written.find('+', start), written.size());
    if (auto source = Reader(written.substr(start, plus - start), written, ranks).read()) {
      imbalance.sources_.push_back(std::move(*source));
    }
    start = plus + 1;
  }
  return imbalance;
}

Imbalance::Draw Imbalance::draw(std::uint64_t seed, int rank, std::uint64_t step) const {
  Draw sum;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const std::uint64_t bits = random_bits(seed, kImbalanceStream + i, step);
    const Draw drawn = stretto::draw(sources_[i], bits, ranks_, rank, step);
    sum.delay += drawn.delay;
    sum.factor *= drawn.factor;
  }
  return sum;
}

Imbalance Imbalance::scaled(double scale) const {
  Imbalance copy = *this;
  for (auto& source : copy.sources_) source = stretto::scaled(source, scale);
  return copy;
}

std::string Imbalance::to_string() const {
  std::string written;
  for (const auto& source : sources_) written += text(written.empty() ? "" : "+", stretto::to_string(source));
  return written.empty() ? "none" : written;
}

}  // namespace stretto
