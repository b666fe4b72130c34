#include "workloads/ts_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace stretto {
namespace {

std::string_view trim(std::string_view s) {
  constexpr std::string_view kBlank = " \t\r";
  const auto first = s.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(kBlank) - first + 1);
}

// Cuts off and returns the text before the next `separator`.
std::string_view cut(std::string_view& rest, char separator) {
  const auto at = rest.find(separator);
  const std::string_view head = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return head;
}

// Enough of a text to recognise it in a message of one line.
std::string shown(std::string_view s) {
  std::string out;
  for (const char c : s.substr(0, 24)) out += c >= 0x20 && c < 0x7f ? c : '?';
  return s.size() > 24 ? out + "…" : out;
}

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

class Parser {
 public:
  Parser(std::string_view content, std::string_view name) : rest_(content), name_(name) {}

  Result<Sequences> parse() {
    while (!in_data_) {
      if (rest_.empty()) return wrong("the file ends before @data");
      const std::string_view line = next_line();
      if (line.empty() || line.front() == '#') continue;
      if (line.front() != '@') return wrong("'", shown(line), "' before @data; expected '# comment' or '@key value'");
      if (const auto header = parse_header(line); !header) return header.error();
    }
    if (labels_.empty()) return wrong("no '@classLabel true …' before @data; expected the labels of a classification");
    out_.classes = static_cast<int>(labels_.size());
    while (!rest_.empty()) {
      const std::string_view line = next_line();
      if (line.empty() || line.front() == '#') continue;
      if (const auto series = parse_series(line); !series) return series.error();
    }
    if (out_.size() == 0) return wrong("no series after @data");
    return std::move(out_);
  }

 private:
  template <class... Parts>
  Error wrong(const Parts&... parts) const {
    return {Errc::bad_input, text(name_, ":", line_, ": ", parts...)};
  }

  std::string_view next_line() {
    ++line_;
    return trim(cut(rest_, '\n'));
  }

  Result<void> parse_header(std::string_view line) {
    std::string_view value = line;
    const std::string key = lower(trim(cut(value, ' ')));
    value = trim(value);
    if (key == "@data") {
      in_data_ = true;
    } else if (key == "@dimensions") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out_.channels);
      if (error != std::errc() || end != value.data() + value.size() || out_.channels < 1) {
        return wrong("@dimensions '", shown(value), "'; expected a positive number");
      }
    } else if (key == "@univariate" && lower(value) == "true") {
      out_.channels = 1;
    } else if (key == "@timestamps" && lower(value) == "true") {
      return wrong("@timeStamps true; only series without time stamps can be read");
    } else if (key == "@classlabel") {
      if (lower(cut(value, ' ')) != "true")
        return wrong("@classLabel without 'true'; only labelled series can be read");
      while (!value.empty()) {
        if (const std::string_view label = trim(cut(value, ' ')); !label.empty()) labels_.push_back(label);
      }
    }
    return {};
  }

  Result<void> parse_series(std::string_view line) {
    dimensions_.clear();
    while (line.find(':') != std::string_view::npos) dimensions_.push_back(trim(cut(line, ':')));
    const std::string_view label = trim(line);
    const auto known = std::find(labels_.begin(), labels_.end(), label);
    if (out_.channels == 0) out_.channels = static_cast<int>(dimensions_.size());
    if (dimensions_.size() != static_cast<std::size_t>(out_.channels) || dimensions_.empty()) {
      return wrong(dimensions_.size(), " dimensions; expected ", out_.channels,
                   ", each followed by ':', then the label");
    }
    if (known == labels_.end()) return wrong("label '", shown(label), "' is not among those of @classLabel");
    const auto length = static_cast<std::size_t>(std::ranges::count(dimensions_.front(), ',')) + 1;
    const auto channels = dimensions_.size();
    const std::size_t start = out_.values.size();
    out_.values.resize(start + length * channels);
    for (std::size_t channel = 0; channel < channels; ++channel) {
      std::string_view numbers = dimensions_[channel];
      if (const auto here = static_cast<std::size_t>(std::ranges::count(numbers, ',')) + 1; here != length) {
        return wrong("dimension ", channel + 1, " has ", here, " values and dimension 1 has ", length,
                     "; expected as many in each");
      }
      for (std::size_t step = 0; step < length; ++step) {
        const std::string_view number = trim(cut(numbers, ','));
        float& value = out_.values[start + step * channels + channel];
        const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
        if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(value)) {
          return wrong("dimension ", channel + 1, ", value ", step + 1, " is '", shown(number), "'; expected a number");
        }
      }
    }
    out_.offsets.push_back(out_.offsets.back() + length);
    out_.labels.push_back(known - labels_.begin());
    return {};
  }

  std::string_view rest_;
  const std::string_view name_;
  int line_ = 0;
  bool in_data_ = false;
  std::vector<std::string_view> labels_;      // as @classLabel lists them; views into the content
  std::vector<std::string_view> dimensions_;  // of the series being read
  Sequences out_;
};

}  // namespace

Result<Sequences> parse_ts(std::string_view content, std::string_view name) {
  return Parser(content, name).parse();
}

}  // namespace stretto
