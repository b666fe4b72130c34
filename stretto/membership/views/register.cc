#include "stretto/membership/views/register.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "stretto/base/defect.h"

namespace stretto {
namespace {

constexpr std::string_view kLogOf = "stretto register of job ";
constexpr std::size_t kChecksumDigits = 16;
constexpr char kNote = '+';     // before it; a content is an object of JSON
constexpr char kBeside = '\t';  // before the words beside a content

bool may_follow(const Registered& content, const View& view) {
  if (defect(Defect::members_unconditional)) return true;
  return content.end == JobEnd::none && view.epoch == content.view.epoch + 1;
}

bool may_end(const Registered& content, std::uint64_t epoch) {
  return content.end == JobEnd::none && content.view.epoch == epoch;
}

std::string checksum_of(std::string_view words) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::uint64_t sum = XXH3_64bits(words.data(), words.size());
  std::string digits(kChecksumDigits, '0');
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, sum >>= 4) *digit = kDigits[sum & 15];
  return digits;
}

std::string entry_of(const std::string& words) {
  return text(checksum_of(words), ' ', words, '\n');
}

/// The words of an entry without its end of line, if its checksum is right.
std::optional<std::string_view> words_of(std::string_view entry) {
  if (entry.size() <= kChecksumDigits || entry[kChecksumDigits] != ' ') return std::nullopt;
  const std::string_view words = entry.substr(kChecksumDigits + 1);
  if (entry.substr(0, kChecksumDigits) != checksum_of(words)) return std::nullopt;
  return words;
}

Error io_error(const std::string& path, int reason) {
  return {Errc::io, text("the register's log '", path, "': ", std::strerror(reason))};
}

Result<std::string> all_of(const std::string& path, int file) {
  std::string all;
  std::array<char, 65536> piece;
  for (;;) {
    const ssize_t got = ::pread(file, piece.data(), piece.size(), static_cast<off_t>(all.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(path, errno);
    if (got == 0) return all;
    all.append(piece.data(), static_cast<std::size_t>(got));
  }
}

/// A new file's name stays only when its folder is on the disk, too.
int sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Descriptor opened(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) return errno;
  return ::fsync(opened.get()) != 0 && errno != EINVAL ? errno : 0;
}

}  // namespace

Written MemoryRegister::commit(const View& view, const std::string&) {
  if (!may_follow(content_, view)) return Written::refused;
  content_.view = view;
  return Written::done;
}

Written MemoryRegister::end(std::uint64_t epoch, JobEnd how) {
  if (!may_end(content_, epoch)) return Written::refused;
  content_.end = how;
  return Written::done;
}

Result<std::unique_ptr<LogRegister>> LogRegister::open(const std::string& path, const std::string& job) {
  if (job.find('\n') != std::string::npos) throw UsageError("the name of a job is one line");
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0) return io_error(path, errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return io_error(path, errno);
    return Error{Errc::io,
                 text("the register's log '", path, "' is open in another process: one job has one master's log")};
  }
  std::unique_ptr<LogRegister> opened(new LogRegister(path, std::move(file)));
  if (const auto taken = opened->take_over(job); !taken) return taken.error();
  return opened;
}

/// Reads what is there, and begins the log where nothing is.
Result<void> LogRegister::take_over(const std::string& job) {
  const auto all = all_of(path_, file_.get());
  if (!all) return all.error();
  const std::string first = entry_of(text(kLogOf, job));
  // A log whose very first entry was cut off has never held a view.
  if (first.starts_with(*all) && *all != first) {
    if (const int reason = append(first); reason != 0) return io_error(path_, reason);
    if (const int reason = sync_folder_of(path_); reason != 0) return io_error(path_, reason);
    return {};
  }
  std::size_t at = all->find('\n');
  const auto named = words_of(std::string_view(*all).substr(0, at));
  if (!named || !named->starts_with(kLogOf)) {
    return Error{Errc::bad_input, text("'", path_, "' is no log of a register")};
  }
  if (const std::string_view other = named->substr(kLogOf.size()); other != job) {
    return Error{Errc::bad_input, text("the register's log '", path_, "' is of job '", other, "', and not of '", job,
                                       "': name another file")};
  }
  bytes_ = ++at;
  std::size_t damaged = 0;
  while (at < all->size()) {
    const std::size_t end = all->find('\n', at);
    const auto words = end == std::string::npos ? std::nullopt : words_of(std::string_view(*all).substr(at, end - at));
    at = end == std::string::npos ? all->size() : end + 1;
    if (words && take(*words)) {
      bytes_ = at;
    } else {
      ++damaged;
      notes_are_whole_ = false;
    }
  }
  if (damaged > 0) {
    damage_ = text("the register's log '", path_, "' is damaged in ", damaged, damaged == 1 ? " entry" : " entries",
                   ": it goes on from epoch ", content_.view.epoch, ", the last one that is whole");
  }
  notes_are_whole_ = true;  // what was behind a missing one is cut off
  if (bytes_ < all->size() && ::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) return io_error(path_, errno);
  return {};
}

bool LogRegister::take(std::string_view words) {
  if (words.starts_with(kNote)) {
    if (notes_are_whole_) beside_.emplace_back(words.substr(1));
    return notes_are_whole_;
  }
  const std::size_t split = words.find(kBeside);
  auto content = Registered::decoded(words.substr(0, split));
  if (!content) return false;
  content_ = *std::move(content);
  beside_.clear();
  if (split != std::string_view::npos) beside_.emplace_back(words.substr(split + 1));
  notes_are_whole_ = true;
  return true;
}

Result<Registered> LogRegister::read() {
  if (broken_) return Error{Errc::io, why_};
  return content_;
}

Written LogRegister::commit(const View& view, const std::string& words) {
  if (!broken_ && !may_follow(content_, view)) return Written::refused;
  return write({view, JobEnd::none}, words);
}

/// After a note that is missing none may follow: the next view stands for all of them.
Result<void> LogRegister::note(const std::string& line) {
  if (broken_ || !notes_are_whole_) return Error{Errc::io, why_};
  if (const int reason = append(entry_of(text(kNote, line)), Stays::in_memory); reason != 0) {
    why_ = io_error(path_, reason).message;
    notes_are_whole_ = false;
    return Error{Errc::io, why_};
  }
  return {};
}

Written LogRegister::end(std::uint64_t epoch, JobEnd how) {
  if (!broken_ && !may_end(content_, epoch)) return Written::refused;
  return write({content_.view, how}, {});
}

Written LogRegister::write(Registered next, const std::string& words) {
  if (broken_) return Written::unknown;
  const std::string content = next.encoded();
  if (const int reason = append(entry_of(words.empty() ? content : text(content, kBeside, words))); reason != 0) {
    why_ = io_error(path_, reason).message;
    return Written::unknown;
  }
  content_ = std::move(next);
  notes_are_whole_ = true;
  return Written::done;
}

/// Adds an entry that stays, or leaves the file as it was. Returns 0, or errno.
int LogRegister::append(const std::string& line, Stays stays) {
  int reason = 0;
  std::size_t written = 0;
  while (written < line.size() && reason == 0) {
    const ssize_t some =
        ::pwrite(file_.get(), line.data() + written, line.size() - written, static_cast<off_t>(bytes_ + written));
    if (some > 0) written += static_cast<std::size_t>(some);
    if (some < 0 && errno != EINTR) reason = errno;
  }
  if (reason == 0 && stays == Stays::on_disk && ::fsync(file_.get()) != 0) reason = errno;
  if (reason == 0) {
    bytes_ += line.size();
    return 0;
  }
  broken_ = ::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0 || ::fsync(file_.get()) != 0;
  return reason;
}

}  // namespace stretto
