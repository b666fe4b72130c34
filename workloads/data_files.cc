#include "workloads/data_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace stretto {

namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// The site-packages directories of a virtual environment; none where there is no such environment.
void add_site_packages(const fs::path& environment, std::vector<fs::path>& out) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(environment / "lib", ignored)) {
    if (entry.path().filename().string().rfind("python3", 0) != 0) continue;
    const fs::path packages = entry.path() / "site-packages";
    if (fs::is_directory(packages, ignored)) out.push_back(packages);
  }
}

std::vector<fs::path> all_site_packages() {
  std::vector<fs::path> out;
  if (const std::string active = environment("VIRTUAL_ENV"); !active.empty()) add_site_packages(active, out);
  std::error_code ignored;
  for (fs::path start : {fs::read_symlink("/proc/self/exe", ignored).parent_path(), fs::current_path(ignored)}) {
    for (; !start.empty(); start = start.parent_path()) {
      add_site_packages(start / ".venv", out);
      if (start == start.root_path()) break;
    }
  }
  return out;
}

}  // namespace

Result<std::string> find_bundled(const BundledFile& file, const std::string& directory) {
  const std::string given = directory.empty() ? environment("STRETTO_DATA") : directory;
  std::error_code ignored;
  if (!given.empty()) {
    for (const fs::path& path : {fs::path(given) / file.path, fs::path(given) / fs::path(file.path).filename()}) {
      if (fs::is_regular_file(path, ignored)) return path.string();
    }
    return unusable(file, text((fs::path(given) / file.path).string(), ": no such file"));
  }
  const std::vector<fs::path> places = all_site_packages();
  for (const fs::path& place : places) {
    if (fs::is_regular_file(place / file.path, ignored)) return (place / file.path).string();
  }
  if (places.empty())
    return unusable(file, text(file.path, ": there is no .venv beside or above the working directory"));
  return unusable(file, text((places.front() / file.path).string(), ": no such file"));
}

Error unusable(const BundledFile& file, std::string_view problem) {
  return {Errc::bad_input, text(problem, "; expected ", file.expected, ", which `.venv/bin/pip install --no-deps ",
                                file.package, "` brings; or set STRETTO_DATA to a folder that has the file")};
}

Result<CsvTable> parse_csv(std::string_view content, std::string_view name) {
  CsvTable table;
  int line = 0;
  while (!content.empty()) {
    ++line;
    const auto end_of_line = content.find('\n');
    std::string_view rest = content.substr(0, end_of_line);
    content = end_of_line == std::string_view::npos ? std::string_view() : content.substr(end_of_line + 1);
    if (!rest.empty() && rest.back() == '\r') rest.remove_suffix(1);
    std::size_t column = 0;
    for (bool more = true; more;) {
      const auto comma = rest.find(',');
      const std::string_view number = rest.substr(0, comma);
      more = comma != std::string_view::npos;
      if (more) rest.remove_prefix(comma + 1);
      ++column;
      float value = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
      if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(value)) {
        return Error{Errc::bad_input, text(name, ":", line, ": column ", column, " is not a number")};
      }
      table.values.push_back(value);
    }
    if (table.columns == 0) table.columns = column;
    if (column != table.columns) {
      return Error{Errc::bad_input,
                   text(name, ":", line, ": ", column, " columns; expected ", table.columns, " as on the first line")};
    }
  }
  return table;
}

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
