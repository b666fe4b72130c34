#include "command/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "command/cli/output.h"
#include "command/cli/table.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

constexpr Duration kRedraw = 100ms;
constexpr Duration kPlainLine = 10s;

}  // namespace

Progress::Progress(std::string label, std::string unit, std::uint64_t total)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(clock_.now()),
      shown_(start_) {}

Progress::~Progress() {
  if (drawn_) print_to(stderr, "\r\x1b[K");
}

void Progress::update(std::uint64_t done) {
  done_.store(done);
  const TimePoint now = clock_.now();
  if (now - shown_ < (terminal_ ? kRedraw : kPlainLine)) return;
  shown_ = now;
  const std::string line =
      progress_line(label_, unit_, done, total_, seconds(now - start_), terminal_ ? 24 : 0, expected_);
  if (terminal_) {
    print_to(stderr, fmt::format("\r{}\x1b[K", line));
    drawn_ = true;
  } else {
    print_to(stderr, fmt::format("{}\n", line));
  }
  std::fflush(stderr);
}

void Progress::line(const std::string& text) {
  print_to(stderr, fmt::format("{}{}\n", drawn_ ? "\r\x1b[K" : "", text));
  drawn_ = false;
  std::fflush(stderr);
}

std::string progress_line(const std::string& label, const std::string& unit, std::uint64_t done, std::uint64_t total,
                          double seconds, int width, double expected) {
  std::string bar;
  if (width > 0 && total > 0) {
    const auto filled = static_cast<std::size_t>(static_cast<std::uint64_t>(width) * std::min(done, total) / total);
    bar = fmt::format("  [{}{}]", std::string(filled, '='), std::string(static_cast<std::size_t>(width) - filled, ' '));
  }
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string left;
  if (rate > 0 && done < total) {
    const auto remaining = std::llround(static_cast<double>(total - done) / rate);
    left = fmt::format("  {}:{:02} left", remaining / 60, remaining % 60);
  }
  const std::string of = total > 0 ? fmt::format("/{}", total) : std::string();
  const std::string beside = expected > 0 ? fmt::format(", predicted {}/s", significant(expected)) : std::string();
  return fmt::format("{}{}  {}{} {}  {}/s{}{}", label, bar, done, of, unit, significant(rate), beside, left);
}

}  // namespace stretto::command
